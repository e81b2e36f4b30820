"""HTML and SVG: markup, style, charts. No value is computed here."""
