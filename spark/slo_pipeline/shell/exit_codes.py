"""The exit codes that `slo-pipeline` commands return.

Exit code 2, misused, comes from an error (`slo_pipeline.cli`).
"""

from typing import Final

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
"""The work did not succeed: something could not be written, or an objective was overspent."""
EXIT_UNKNOWN: Final = 3
"""Too little was measured to judge an objective."""
