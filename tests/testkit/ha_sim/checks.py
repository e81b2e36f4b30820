"""Invariants under every fault.

They compare the group's acknowledged messages with all that each log has ever held.

kept        a member of the SyncStateSet has, after any crash, every message that was acknowledged
no ghosts   what recovery finds is a beginning of what the log held last: no cut tail
            comes back, whole or in part
durable     it finds at least every message that was durable
labelled    the epoch that a member's list gives a message is the epoch in which it was written
prefix      a connected slave's log is a beginning of its master's
"""

from dataclasses import dataclass, field

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.commitlog.records import RecordKind, check_record
from ha_sidecar.epoch import EpochList
from testkit.check.errors import SafetyViolation


@dataclass
class AcknowledgedLog:
    """The group's log as far as clients received acknowledgements."""

    data: bytes = b""
    messages: int = 0

    def grow(self, log: bytes) -> None:
        """Learn that all of `log` is acknowledged now."""
        if log[: len(self.data)] != self.data:
            raise SafetyViolation("a master without acknowledged bytes acknowledges more")
        self.data = log


@dataclass
class Held:
    """What one member's log holds, kept beside its disk.

    Attributes:
        data: the bytes from offset 0 on.
        floor: below it all is durable; a cut under way may have lowered it already.
    """

    data: bytearray = field(default_factory=bytearray)
    floor: int = 0

    def write(self, offset: int, data: bytes) -> None:
        """Note bytes that are about to be written."""
        if offset != len(self.data):
            raise SafetyViolation(f"a write at {offset}, the log ends at {len(self.data)}")
        self.data += data


def written(epoch: int, number: int, length: int) -> bytes:
    """Return a message's body that says in which epoch it was written."""
    return b"%d/%d/" % (epoch, number) + b"x" * length


def messages(data: bytes, file_bytes: int) -> list[tuple[int, int, int]]:
    """Return (offset, end, epoch) of each whole message of a log from offset 0."""
    found = []
    at = 0
    while at < len(data):
        rest_bytes = file_bytes - at % file_bytes
        record = check_record(data, at, min(len(data), at + rest_bytes), at, rest_bytes)
        if record.kind is RecordKind.MESSAGE:
            body_at = at + 88
            found.append((at, at + record.length_bytes, int(data[body_at : data.index(b"/", body_at)])))
        if not record.length_bytes:
            break
        at += record.length_bytes
    return found


def check_recovered(held: Held, found: bytes, file_bytes: int) -> None:
    """Hold what recovery found against what the log held when its process ended."""
    if found != held.data[: len(found)]:
        raise SafetyViolation(f"a ghost: recovery found {len(found)} bytes that the log never ended with")
    durable = [end for _, end, _ in messages(bytes(held.data), file_bytes) if end <= held.floor]
    if durable and len(found) < durable[-1]:
        raise SafetyViolation(f"durable bytes are gone: {durable[-1]} before, {len(found)} found")


def check_labels(found: bytes, epochs: EpochList, file_bytes: int) -> None:
    """Hold the epoch list against the epochs that the messages themselves name."""
    for offset, _, epoch in messages(found, file_bytes):
        entry = epochs.find_by_offset(LogOffset(offset))
        if entry is None or entry.epoch != epoch:
            raise SafetyViolation(f"the message at {offset} is of epoch {epoch}, the list says {entry}")


def check_kept(acknowledged: AcknowledgedLog, found: bytes, file_bytes: int) -> None:
    """Hold a member of the SyncStateSet against the acknowledged log."""
    ends = [end for _, end, _ in messages(acknowledged.data, file_bytes)]
    end = ends[-1] if ends else 0
    if found[:end] != acknowledged.data[:end]:
        raise SafetyViolation(f"acknowledged bytes up to {end} are gone: {len(found)} are there")
