"""Names in a data directory, for those who look at files without reading them."""

from typing import Final

KINDS: Final = ("probe_ops", "events", "samples")
SUFFIX: Final = ".parquet"
EXTRACT_PREFIX: Final = "extract_"
"""Of a kind, in the name of the table that holds its extracts."""
