"""The pages of a node's own log: `GET /v1/log` and `GET /v1/log/{index}`.

| query | meaning | default |
|---|---|---|
| first | index of the first entry | the newest `limit` entries |
| limit | entries of the page, at most `LOG_ENTRIES_MAX` | `LOG_ENTRIES` |

Every node shows what its log has. Entries behind a snapshot are gone; those above the commit index may yet be
replaced, and say so.
"""

from typing import Final, Protocol

from controller_core.raft.types import Entry
from controller_core.server.common.http_errors import HttpError
from controller_core.server.common.json_views import Json
from controller_core.server.common.log_views import entry_json
from controller_core.server.node.types import NodeStatus

LOG_ENTRIES: Final = 50
LOG_ENTRIES_MAX: Final = 1_000
LOG_BYTES_MAX: Final = 1 << 18
"""Bytes of the entries of one page; one entry is always shown."""


class LoggedNode(Protocol):
    """What the pages ask of the node."""

    def status(self) -> NodeStatus:
        """Return a copy of the node's state."""
        ...

    def log_entries(self, low: int, high: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return the entries that the log has from `low` to before `high`, at most so many bytes."""
        ...


def log_json(node: LoggedNode, first: int | None, limit: int) -> Json:
    """Return a page of entries, in order of their index."""
    status = node.status()
    limit = min(limit, LOG_ENTRIES_MAX)
    first = status.last_index - limit + 1 if first is None else first
    entries = node.log_entries(first, first + limit, LOG_BYTES_MAX) if limit else ()
    return {
        "first_index": status.first_index,
        "last_index": status.last_index,
        "commit_index": status.commit_index,
        "entries": [entry_json(entry, status.commit_index) for entry in entries],
    }


def one_entry_json(node: LoggedNode, index: int) -> Json:
    """Return one entry.

    Raises:
        HttpError: 404, the log does not have it.
    """
    status = node.status()
    found = node.log_entries(index, index + 1, LOG_BYTES_MAX)
    if not found:
        extent = f"the log has entries {status.first_index} to {status.last_index}"
        why = "a snapshot took its place" if index < status.first_index else "it is not written yet"
        raise HttpError(404, f"no such entry: {why} ({extent})", field="index", value=index)
    return entry_json(found[0], status.commit_index)
