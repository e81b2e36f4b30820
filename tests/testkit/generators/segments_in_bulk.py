"""Files where segments lie, with something in them: for whoever copies and counts files and reads none."""

import datetime as dt
from pathlib import Path


def segment(data: Path, table: str, day: dt.date, name: str, content: bytes | None = None) -> Path:
    """Write a file as a segment of a table and a day; its content is its own name, if no other is given."""
    path = data / table / f"day={day.isoformat()}" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(str(path.name).encode() if content is None else content)
    return path


def contents(data: Path) -> dict[str, bytes]:
    """Return the content of every file below a directory that a reader would see, by its path."""
    found = (path for path in data.rglob("*.parquet") if path.name[0] not in "._")
    return {str(path.relative_to(data)): path.read_bytes() for path in found}
