"""Archives whose bytes depend on their content alone: same files, same bytes.

Shape: names in order, one time for all files, no owner, and a gzip header without time or name.
"""

import gzip
import tarfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Final

_EXECUTABLE: Final = 0o755
_FILE: Final = 0o644


def files_below(folder: Path, prefix: str = "") -> dict[str, Path]:
    """Return each file below a folder by its name in an archive, symbolic links left out."""
    return {
        prefix + path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def write_tar_gz(target: Path, files: Mapping[str, Path], time_s: int) -> None:
    """Write a `.tar.gz` or `.tgz`.

    Args:
        target: the archive.
        files: each file by its name in the archive. A file that its owner may run stays executable.
        time_s: time of every file, in seconds since 1970.
    """
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, path in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = path.stat().st_size
            entry.mtime = time_s
            entry.mode = _EXECUTABLE if path.stat().st_mode & 0o100 else _FILE
            with path.open("rb") as content:
                archive.addfile(entry, content)
    with target.open("wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
        packed.write(buffer.getvalue())
