"""`kubectl_complete-rmqha`: what kubectl runs to complete `kubectl rmqha`.

kubectl finds it in PATH beside the plugin. It passes the words after `rmqha`; the last is begun, or empty.
The answer is one candidate for each line, with its help after a tab, and a directive at the end.

Never here: a question to the cluster.
"""

import sys
from collections.abc import Sequence
from typing import Final

from controller_core.command_line.completion import candidates
from rocketmq_operator.plugin.cli import file_parser

_WITHOUT_FILES: Final = ":4"
"""ShellCompDirectiveNoFileComp of Cobra: do not offer files, even without a candidate."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the candidates for the last word."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    lines = [f"{word}\t{text}" if text else word for word, text in candidates(file_parser(), words)]
    sys.stdout.write("\n".join([*lines, _WITHOUT_FILES]) + "\n")
    return 0
