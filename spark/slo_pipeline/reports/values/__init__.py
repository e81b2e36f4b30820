"""What a report needs to know, as plain values, and how numbers read aloud."""
