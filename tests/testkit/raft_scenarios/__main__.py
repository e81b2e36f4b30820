"""Command line: replay every text under a directory; the last line counts, the exit code is 1 on failure."""

import argparse
import sys
from pathlib import Path

from testkit.raft_scenarios.runner import ScenarioVerdict, replay, texts_under


def main(arguments: list[str] | None = None) -> int:
    """Replay, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m testkit.raft_scenarios", description=__doc__)
    parser.add_argument("directory", type=Path, help="directory of texts, or one text")
    parser.add_argument(
        "--rewrite", action="store_true", help="write the actual output into the texts that differ"
    )
    options = parser.parse_args(arguments)
    counts = dict.fromkeys(ScenarioVerdict, 0)
    for path in texts_under(options.directory):
        result = replay(path)
        counts[result.verdict] += 1
        _print(f"{result.verdict.name.lower():8} {path}")
        if result.verdict is not ScenarioVerdict.PASSED:
            _print(result.report)
        if options.rewrite and result.verdict is ScenarioVerdict.FAILED:
            path.write_text(result.rewritten, encoding="utf-8")
    passed, failed = counts[ScenarioVerdict.PASSED], counts[ScenarioVerdict.FAILED]
    _print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
