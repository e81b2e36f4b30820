"""The licences of every Python library that a release ships: a table, then the texts.

Read from the installed libraries, whose versions uv.lock pins. Not here: what the base image contains; Debian
keeps those texts in /usr/share/doc, and they are in the images.
"""

from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from controller_core.command_line.program import FailedError
from project_tools.release.commands import export_libraries
from project_tools.release.source_tree import PACKAGES, SourceTree

_TEXT_NAMES: Final = ("LICENSE", "LICENCE", "COPYING", "NOTICE")
_CLASSIFIER: Final = "License :: OSI Approved :: "
_FIRST_LINE_CHARS_MAX: Final = 60


def build_licences(tree: SourceTree, out: Path) -> Path:
    """Write `licences-<version>.txt` and return it.

    Raises:
        FailedError: a library is not installed, or tells no licence.
    """
    shipped = [_installed(name) for name in shipped_libraries(tree)]
    rows = [f"{found.name} {found.version}: {licence_name(found)}" for found in shipped]
    texts = [text for found in shipped for text in _texts(found)]
    target = out / f"licences-{tree.version}.txt"
    target.write_text("\n".join([*rows, "", *texts]), encoding="utf-8")
    return target


def shipped_libraries(tree: SourceTree) -> list[str]:
    """Return the names of the libraries that our packages require on Linux, in order."""
    lines = export_libraries(PACKAGES.values(), tree.root, "--no-hashes").decode().splitlines()
    # A line with a marker is for other systems: `colorama==0.4.6 ; sys_platform == 'win32'`.
    return sorted(line.split("==")[0].strip() for line in lines if "==" in line and "win32" not in line)


def licence_name(found: Distribution) -> str:
    """Return the licence as the library's metadata tells it.

    Raises:
        FailedError: the metadata does not tell it.
    """
    metadata = found.metadata
    if "License-Expression" in metadata:
        return metadata["License-Expression"]
    classifiers = [
        value.removeprefix(_CLASSIFIER)
        for value in metadata.get_all("Classifier") or []
        if value.startswith(_CLASSIFIER)
    ]
    words = " and ".join([*classifiers] or metadata.get_all("License") or []).strip()
    if not words:
        raise FailedError(f"{found.name}: its metadata names no licence")
    return words.splitlines()[0][:_FIRST_LINE_CHARS_MAX]


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError as error:
        raise FailedError(f"{name} is not installed: run make setup") from error


def _texts(found: Distribution) -> list[str]:
    files = [file for file in found.files or [] if file.name.upper().startswith(_TEXT_NAMES)]
    heads = [f"==== {found.name} {found.version}: {file.name} ====" for file in files]
    return [
        f"{head}\n\n{file.read_text(encoding='utf-8').strip()}\n"
        for head, file in zip(heads, files, strict=True)
    ]
