"""The targets file: whom to scrape and whose events to follow.

Problem: pods come and go while the collector runs, and a mistake in the list must not silently measure
nothing. Shape: one JSON file, `{"targets": [{"name", "uid", "url", "kind", "stream"}]}`. It is read as a
whole; a file that cannot be read or holds a mistake is refused with the place of the mistake, and a running
collector keeps its old list. Never: a target that is not understood is never left out quietly.

Fields: `name` (the `instance` of its samples), `uid` (changes when the process is another one: pod uid or
start time; may be left out), `kind`:

- `metrics`: `url` is a page of Prometheus text.
- `events`: `url` answers `after=N`, added to its query, with JSON lines and stays open. Targets of one
  `stream` serve the same sequence numbers (the controllers of one cluster): they share one stored position.
  Without `stream` the sequence lives only in that process (a replica's), and is read from its beginning at
  each connection.
- `file`: `url` is the path of a file of JSON lines that grows.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from controller_core import bounded_json

KINDS = ("metrics", "events", "file")
TARGETS_MAX = 5_000
_FIELDS = {"name", "uid", "url", "kind", "stream"}


class TargetsError(ValueError):
    """The targets file cannot be used; the text names file, target and field."""


@dataclass(frozen=True, slots=True)
class Target:
    """One thing to collect from; see the module's text."""

    name: str
    url: str
    kind: str
    uid: str = ""
    stream: str = ""


def read_targets(path: Path) -> list[Target]:
    """Return the targets of a file.

    Raises:
        TargetsError: the file is missing, is not JSON, or holds an error.
    """
    try:
        document = bounded_json.decode(path.read_bytes())
    except OSError as error:
        raise TargetsError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise TargetsError(f"{path}: no JSON: {error}") from error
    listed = document.get("targets") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise TargetsError(f'{path}: needs an object with a list "targets"')
    if len(listed) > TARGETS_MAX:
        raise TargetsError(f"{path}: {len(listed)} targets, at most {TARGETS_MAX} are served")
    targets = [_target(f"{path}: targets[{place}]", fields) for place, fields in enumerate(listed)]
    names = [(target.kind == "metrics", target.name) for target in targets]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise TargetsError(f"{path}: targets[{place}].name {name[1]!r} is there twice")
    return targets


class TargetsFile:
    """The targets file, read again when it changes.

    Attributes:
        targets: the targets read last; empty without a file.
    """

    def __init__(self, path: Path | None) -> None:
        self.targets: list[Target] = []
        self._path = path
        self._seen_ns: int | None = None

    def refresh(self) -> bool:
        """Read the file, unless it is as it was at the last try; return whether it was read.

        Raises:
            TargetsError: it cannot be used; the targets stay as they were.
        """
        if self._path is None:
            return False
        # Before it is read: a change in between is then seen at the next look.
        changed_ns = _changed_ns(self._path)
        if changed_ns == self._seen_ns:
            return False
        self._seen_ns = changed_ns
        self.targets = read_targets(self._path)
        return True


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        # While it is being replaced it may be gone for a moment.
        return 0


def _target(where: str, fields: object) -> Target:
    if not isinstance(fields, Mapping):
        raise TargetsError(f"{where}: must be an object")
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        raise TargetsError(f"{where}: unknown field {unknown[0]!r}")
    values = {key: fields.get(key, "") for key in _FIELDS}
    for key, value in values.items():
        if not isinstance(value, str):
            raise TargetsError(f"{where}.{key}: must be a string, not {value!r}")
        if not value and key in {"name", "url", "kind"}:
            raise TargetsError(f"{where}.{key}: is missing")
    target = Target(**values)
    if target.kind not in KINDS:
        raise TargetsError(f"{where}.kind: must be one of {', '.join(KINDS)}, not {target.kind!r}")
    if target.kind != "file" and urlsplit(target.url).scheme not in {"http", "https"}:
        raise TargetsError(f"{where}.url: must begin with http:// or https://, not {target.url!r}")
    return target
