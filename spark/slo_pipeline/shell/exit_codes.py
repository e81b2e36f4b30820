"""The exit codes of every `slo-pipeline` command, as docs/reference/reports.md tells them."""

from typing import Final

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
"""The work did not succeed: something could not be written, or an objective was overspent."""
EXIT_UNUSABLE: Final = 2
"""Wrong options, or input that cannot be used."""
EXIT_UNKNOWN: Final = 3
"""Too little was measured to judge an objective."""
