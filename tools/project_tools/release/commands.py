"""Other programs that a release needs: found, run, and their errors told in their own words."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from controller_core.command_line.program import FailedError


def find_program(name: str, *folders: Path) -> str:
    """Return the path of a program, from the folders first.

    Raises:
        FailedError: it is not installed.
    """
    found = shutil.which(name, path=os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")]))
    if found is None:
        raise FailedError(f"{name} is not installed")
    return found


def run_program(words: list[str], folder: Path, variables: Mapping[str, str] | None = None) -> bytes:
    """Run a program in a folder and return its output.

    Args:
        words: the program and its arguments.
        folder: its working directory.
        variables: of the environment, besides our own. `VIRTUAL_ENV` is left out.

    Raises:
        FailedError: it failed; the text has its last words.
    """
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    result = subprocess.run(  # noqa: S603 - programs of the build, with arguments of the build
        words, cwd=folder, env=environment | dict(variables or {}), capture_output=True, check=False
    )
    if result.returncode:
        last = (result.stderr or result.stdout).decode(errors="replace").strip()[-1000:]
        raise FailedError(f"{Path(words[0]).name} {' '.join(words[1:3])}: {last}")
    return result.stdout


def run_uv(words: Iterable[str], folder: Path, variables: Mapping[str, str] | None = None) -> bytes:
    """Run uv, that of `make setup` first, quietly and return its output.

    Raises:
        FailedError: it is not installed, or failed.
    """
    command, *others = words
    uv = find_program("uv", Path.cwd() / ".tools" / "bin")
    return run_program([uv, command, "--quiet", *others], folder, variables)


def export_libraries(packages: Iterable[str], folder: Path, *options: str) -> bytes:
    """Return the libraries that some of our packages require, as uv.lock pins them, one a line.

    Raises:
        FailedError: uv is not installed, or failed.
    """
    words = ["export", "--frozen", "--no-dev", "--no-emit-workspace", "--no-annotate", "--no-header"]
    for package in packages:
        words += ["--package", package]
    return run_uv([*words, *options], folder)


def report_progress(text: str) -> None:
    """Write one line about the work to standard error."""
    sys.stderr.write(f"release: {text}\n")
