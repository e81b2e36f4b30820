"""`SHA256SUMS`: the digest of every file of a release, as `sha256sum --check` reads it."""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

NAME: Final = "SHA256SUMS"


def write_checksums(files: Iterable[Path], out: Path) -> Path:
    """Write the digests of the files, in order of their names, and return the list."""
    target = out / NAME
    lines = [f"{_digest(path)}  {path.name}\n" for path in sorted(files, key=lambda path: path.name)]
    target.write_text("".join(lines), encoding="utf-8")
    return target


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
