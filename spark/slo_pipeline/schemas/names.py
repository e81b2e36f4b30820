"""Names in a data directory, for those who look at files without reading them."""

from typing import Final

SAMPLES_TABLE: Final = "samples"
EVENTS_TABLE: Final = "events"
OPERATIONS_TABLE: Final = "probe_ops"
KINDS: Final = (OPERATIONS_TABLE, EVENTS_TABLE, SAMPLES_TABLE)
SUFFIX: Final = ".parquet"
EXTRACT_PREFIX: Final = "extract_"
"""Of a kind, in the name of the table that holds its extracts."""
