"""A store as a release without bounds left it: with a committed command that is larger than any node applies.

The files are byte for byte those that the release wrote, which a test holds to the hash of the original.
"""

from pathlib import Path
from typing import Final

import msgspec

from controller_core.groups.commands import COMMAND_VERSION
from controller_core.log.store import DiskStore
from controller_core.raft.types import ConfState, Entry, HardState, LogIndex, NodeId, Ready, Snapshot, Term

POISON_INDEX: Final = 3
POISON_NAME_BYTES: Final = 1_200_000


def write_poisoned_store(directory: Path, owner: str, nodes: int) -> None:
    """Write a store of one of `nodes` members, all committed.

    It has claims of the groups `before` and `behind`, and the poison between them.
    """
    voters = tuple(NodeId(node + 1) for node in range(nodes))
    initial = Snapshot(LogIndex(1), Term(1), ConfState(voters=voters))
    incarnation = owner.replace("/", "-")
    store = DiskStore.open(directory, initial, owner=owner, new_incarnation=incarnation)
    payloads = (_claim("before"), _claim("x" * POISON_NAME_BYTES), _claim("behind"))
    entries = tuple(
        Entry(Term(2), LogIndex(index), data=data) for index, data in enumerate(payloads, POISON_INDEX - 1)
    )
    state = HardState(Term(2), NodeId(1), LogIndex(entries[-1].index))
    batch = store.prepare(Ready(entries=entries, hard_state=state, must_sync=True))
    store.write(batch)
    store.commit(batch)
    store.close()


def _claim(name: str) -> bytes:
    """Return a claim with a name of any size, as a release without bounds encoded it.

    Every field is in it, defaults included.
    """
    fields = {
        "kind": "ApplyBrokerId",
        "cluster": "c1",
        "broker_name": name,
        "stamp": {"utc_ns": 1, "monotonic_ns": 1, "clock_id": "older"},
        "broker_id": 1,
        "check_code": "h:1;1",
        "log_replica": False,
    }
    return bytes([COMMAND_VERSION]) + msgspec.msgpack.encode(fields)
