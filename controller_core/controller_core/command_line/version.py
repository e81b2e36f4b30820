"""Which version of a program runs: the installed distribution's, and the commit that it was built from.

An image carries the commit in its environment (`Dockerfile`, `scripts/images`). A checkout asks git. Anything
else, such as a wheel, says `unknown`.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

COMMIT_VARIABLE: Final = "ROCKETMQ_HA_COMMIT"
UNKNOWN: Final = "unknown"
_GIT_TIMEOUT_S: Final = 5.0


class AddVersion(argparse.Action):
    """The option `--version`; the version is looked up only if the option is given."""

    def __init__(self, option_strings: Sequence[str], dest: str, distribution: str) -> None:
        super().__init__(
            option_strings, argparse.SUPPRESS, nargs=0, help="print the version and the commit, and exit"
        )
        self._distribution = distribution

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print the version and end the program."""
        sys.stdout.write(f"{version_line(parser.prog, self._distribution)}\n")
        parser.exit()


def version_line(prog: str, distribution: str) -> str:
    """Return `program VERSION (commit COMMIT)`."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version(distribution)
    except PackageNotFoundError:
        number = UNKNOWN
    return f"{prog} {number} (commit {commit()})"


def commit(file: Path = Path(__file__)) -> str:
    """Return the commit of the running code; it ends with `-dirty` in a checkout with changes.

    Args:
        file: one of the running code's own, which git must know: an installed file may lie in the checkout of
            something else.
    """
    return os.environ.get(COMMIT_VARIABLE, "").strip() or _commit_of_checkout(file) or UNKNOWN


def _commit_of_checkout(file: Path) -> str:
    if _git(file.parent, "ls-files", "--error-unmatch", file.name) is None:
        return ""
    return _git(file.parent, "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*") or ""


def _git(directory: Path, *words: str) -> str | None:
    """Return what git prints; None if it fails or is not installed."""
    import subprocess

    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    called: dict[str, Any] = {"capture_output": True, "text": True, "check": True, "env": environment}
    try:
        done = subprocess.run(["git", "-C", directory, *words], timeout=_GIT_TIMEOUT_S, **called)  # noqa: S603, S607 - fixed words, git of the person
    except (OSError, subprocess.SubprocessError):
        return None
    return str(done.stdout).strip()
