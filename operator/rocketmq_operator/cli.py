"""The command line: `rocketmq-operator crds` prints the resource definitions.

Never here: what a command does.
"""

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    parser = argparse.ArgumentParser(prog="rocketmq-operator", description="Operates RocketMQ on Kubernetes.")
    parser.parse_args(arguments)
    parser.print_help(sys.stderr)
    return 2
