"""Plants one bug after the other in a copy of `controller_core`.

It runs the check that must find the bug against that copy.

The copy lies in a temporary directory that comes first on the path of a process of its own, so nothing of the
tree is touched and a mutant cannot leak into the next.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import controller_core
from testkit.mutants.hunt import FOUND
from testkit.mutants.mutant import Mutant

TIMEOUT_S = 900.0  # ends what hangs; the longest hunt takes a minute and a half on a quiet machine
_PYTEST_FAILED = 1


class Fate(StrEnum):
    """What became of a mutant."""

    FOUND = "found"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"
    """The finder itself failed: that does not count as a finding."""


@dataclass(frozen=True, slots=True)
class Result:
    """How a mutant fared.

    Attributes:
        evidence: the finder's last words.
    """

    mutant: Mutant
    fate: Fate
    evidence: str
    took_s: float


def package_root() -> Path:
    """Return the directory of the package that is mutated."""
    return Path(controller_core.__file__).parent


def plant(mutant: Mutant, package: Path) -> None:
    """Write the bug into a package.

    Raises:
        ValueError: the text to replace does not occur exactly once.
    """
    path = package / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file} has the text of {mutant.name!r} {text.count(mutant.old)} times")
    path.write_text(text.replace(mutant.old, mutant.new))


def run(mutant: Mutant, tests_root: Path) -> Result:
    """Plant a bug and see whether it is found; `tests_root` is where the paths of tests begin."""
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        package = Path(directory) / "controller_core"
        shutil.copytree(package_root(), package, ignore=shutil.ignore_patterns("__pycache__"))
        plant(mutant, package)
        environment = {**os.environ, "PYTHONPATH": directory, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            ended = subprocess.run(
                _command(mutant),
                cwd=tests_root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Result(mutant, Fate.BROKEN, f"no end within {TIMEOUT_S:.0f} s", TIMEOUT_S)
    fate = _fate(mutant, ended.returncode)
    words = (ended.stdout if fate is not Fate.BROKEN else ended.stdout + ended.stderr).strip()
    return Result(mutant, fate, words.splitlines()[-1] if words else "", time.monotonic() - started_s)


def _command(mutant: Mutant) -> list[str]:
    if mutant.test:
        options = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly"]
        return [sys.executable, "-m", "pytest", *options, mutant.test]
    what, seeds = ("raft", mutant.raft) if mutant.raft else ("controllers", mutant.schedules)
    return [sys.executable, "-m", "testkit.mutants.hunt", what, "--seeds", str(seeds)]


def _fate(mutant: Mutant, status: int) -> Fate:
    if status == 0:
        return Fate.SURVIVED
    found = _PYTEST_FAILED if mutant.test else FOUND
    return Fate.FOUND if status == found else Fate.BROKEN
