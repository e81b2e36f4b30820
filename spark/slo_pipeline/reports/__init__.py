"""From plain values to one HTML file. No Spark here: `model` says what a report needs, `page.render` makes it."""
