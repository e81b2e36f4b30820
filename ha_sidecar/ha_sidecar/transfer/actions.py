"""What the machines want done: values that the shell carries out in the order they come.

The order is part of the contract. For the slave's machine: an epoch must be on disk before a byte that lies
behind its start: a crash between the two would otherwise label those bytes with the older epoch, and a later
truncation would keep what it must cut. A log is cut before its epoch list: recovery drops entries beyond the
log's end, and cannot invent missing ones.
"""

from dataclasses import dataclass
from enum import Enum

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.epoch import EpochList, PointRule
from ha_sidecar.transfer.codec import Handshake


class CloseReason(Enum):
    """Why the machine gives up a connection; the words stand in logs, events and metrics."""

    REPLY_TIMEOUT = "ReplyTimeout"
    """No handshake reply in time."""
    MASTER_SILENT = "MasterSilent"
    """No byte came for the housekeeping interval, in which a live master beats several times."""
    START_BELOW_FIRST_EPOCH = "StartBelowFirstEpoch"
    """The master lost its way serving a start below its first epoch.

    Start at a file at or above it instead.
    """
    NO_WHOLE_FILE_YET = "NoWholeFileYet"
    """The first file at or above the master's first epoch has not begun.

    Nothing can be asked for until it has.
    """
    EPOCH_NOT_CONFIRMED = "EpochNotConfirmed"
    """The master has an epoch later than the one in which the controllers named it.

    Ask them first, compare nothing yet.
    """
    HANDSHAKE_TIMEOUT = "HandshakeTimeout"
    """A slave connected and did not say who it is."""
    LEGACY_HANDSHAKE = "LegacyHandshake"
    """The slave is of an early 5.0, which names no broker id."""
    SLAVE_SILENT = "SlaveSilent"
    """No ack came for the housekeeping interval, in which a live slave sends several."""
    START_BELOW_MIN = "StartBelowMin"
    """The slave goes on where our log no longer reaches back to."""
    START_BEYOND_END = "StartBeyondEnd"
    """The slave holds more than we do and did not cut it: it has compared nothing."""
    LOG_CHANGED = "LogChanged"
    """Our own log was cut, or its epochs rewritten, under the connection.

    A new handshake has to compare them.
    """
    UNLABELLED_LOG = "UnlabelledLog"
    """Our log holds bytes and no epoch for them: no slave could tell where it parts from ours."""


class DivergenceReason(Enum):
    """Why no prefix of the replica's log can be continued from this master."""

    NO_COMMON_EPOCH = "NoCommonEpoch"
    EPOCH_START_MOVED_BACK = "EpochStartMovedBack"
    UNLABELLED_LOG = "UnlabelledLog"
    """The replica holds bytes and no epoch for them."""
    BEHIND_FIRST_EPOCH = "BehindFirstEpoch"
    """The common prefix ends below the first epoch the master still knows; an ack there breaks its stream."""
    BEHIND_MASTER_MIN = "BehindMasterMin"
    """The master has more, yet sends none of it: it has deleted the files the replica needs next."""
    TRUNCATES_TO_NOTHING = "TruncatesToNothing"
    """The point lies at or below the replica's own first byte."""
    CUT_INSIDE_RECORD = "CutInsideRecord"
    """No record starts at the point; said by the shell, which alone can look."""


@dataclass(frozen=True, slots=True)
class SendBytes:
    """Write these bytes to the master, in one piece."""

    data: bytes


@dataclass(frozen=True, slots=True)
class HandshakeDone:
    """The master's reply was understood; facts for events and metrics."""

    master_epochs: EpochList
    master_max_offset: LogOffset
    start_offset: LogOffset
    rule: PointRule | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """Cut the log so that it ends at `to_offset`, durably, before anything else is done."""

    to_offset: LogOffset


@dataclass(frozen=True, slots=True)
class AdoptEpochs:
    """Make this the replica's epoch list, durably, before the next byte is written."""

    epochs: EpochList


@dataclass(frozen=True, slots=True)
class AppendBody:
    """Write `data` at `offset`, the log's end; the view is valid only until the machine receives again."""

    offset: LogOffset
    data: memoryview


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The log reached what the master had when it answered; said once a connection."""

    offset: LogOffset


@dataclass(frozen=True, slots=True)
class Diverged:
    """Nothing more can be done on this connection; the log needs a decision."""

    reason: DivergenceReason
    detail: str


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection."""

    reason: CloseReason


Action = SendBytes | HandshakeDone | Truncate | AdoptEpochs | AppendBody | CaughtUp | Diverged | Close


@dataclass(frozen=True, slots=True)
class SlaveStarted:
    """A slave told where it goes on; facts for events and metrics."""

    handshake: Handshake
    start_offset: LogOffset


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Write `header`, then the log's bytes [offset, offset + body_bytes), before anything else is written.

    `body_bytes` is 0 for a heartbeat and for an announced epoch.
    """

    header: bytes
    offset: LogOffset
    body_bytes: int


MasterAction = SendBytes | SlaveStarted | Close
