"""The handshake's decision: from two epoch lists to a start offset, or to the reason why it cannot start.

This is where a log can be lost, so it stands apart from the stream: one pure function from the replica's log
and the master's answer to a `StartPlan`.

A plan never keeps a byte that the lists do not prove to be the master's, and never asks a Java master to
start where it cannot: a first ack below its first epoch, but above 0, makes it compute a negative body size
and then stream without bound. Nor does it ack a byte beyond the master's end: a Java master would take that
for a copy of what it has not even written yet, and a slave without a byte for a member of the SyncStateSet.

Source: AutoSwitchHAClient.doTruncate, AutoSwitchHAConnection 5.4.0 for the start; AutoSwitchHAService
.maybeExpandInSyncStateSet for what an ack beyond the end does; see `truncation_point`.
"""

from dataclasses import dataclass
from typing import Final

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.epoch import EpochList, PointRule, truncation_point
from ha_sidecar.transfer.actions import CloseReason, DivergenceReason
from ha_sidecar.transfer.codec import HandshakeReply

NO_BROKER_ID: Final = -1
"""The id of a learner that the controllers do not know."""


@dataclass(frozen=True, slots=True)
class SlaveConfig:
    """How to lead one connection.

    Attributes:
        broker_id: the id the controller gave, from 1.
        mapped_file_bytes: size of a log file; must equal the master's mappedFileSizeCommitLog, since bodies
            never cross a file's end and an empty log must start at a file's start.
        restarted_epoch: the epoch known to be the same master's then and now, see `truncation_point`; None if
            none.
        start_at_file: an empty replica asks for the first whole file at or above the master's first epoch
            instead of for everything. Wanted only after `CloseReason.START_BELOW_FIRST_EPOCH`.
        async_learner: receive the log and never enter the SyncStateSet; `broker_id` may then be
            `NO_BROKER_ID`.
        sync_from_last_file: an empty replica asks for the master's newest file and what follows it, instead
            of for everything. The master heeds it where the first ack is 0 alone, so a replica with a log
            goes on in it.
        confirmed_epoch: the epoch in which the controllers named this master. A peer whose log has a later
            one is another, or will be master in an epoch that they have not told yet; None if anybody's log
            will do.
    """

    broker_id: int
    mapped_file_bytes: int
    restarted_epoch: int | None = None
    start_at_file: bool = False
    async_learner: bool = False
    sync_from_last_file: bool = False
    confirmed_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class OwnLog:
    """What the replica holds, all of it durable.

    [min_offset, max_offset) and its epochs; equal offsets if empty.
    """

    min_offset: LogOffset
    max_offset: LogOffset
    epochs: EpochList

    @property
    def is_empty(self) -> bool:
        """Say whether the log is empty."""
        return self.max_offset == self.min_offset


@dataclass(frozen=True, slots=True)
class StartPlan:
    """How to go on: the first ack in bytes and the rule it follows from (None for an empty log)."""

    start_offset: LogOffset
    rule: PointRule | None


def decide(
    own: OwnLog, reply: HandshakeReply, config: SlaveConfig
) -> StartPlan | DivergenceReason | CloseReason:
    """Return where the replica goes on from this master, or why it cannot, for ever or for now."""
    last = reply.epochs.last
    if config.confirmed_epoch is not None and last is not None and last.epoch > config.confirmed_epoch:
        return CloseReason.EPOCH_NOT_CONFIRMED
    if own.is_empty:
        start_offset = _empty_start(reply, config)
        return (
            CloseReason.NO_WHOLE_FILE_YET
            if start_offset > reply.max_offset
            else StartPlan(start_offset, None)
        )
    if not len(own.epochs):
        return DivergenceReason.UNLABELLED_LOG
    point = truncation_point(
        own.epochs, own.max_offset, reply.epochs, reply.max_offset, config.restarted_epoch
    )
    if point.offset is None:
        moved = point.rule is PointRule.EPOCH_START_MOVED_BACK
        return DivergenceReason.EPOCH_START_MOVED_BACK if moved else DivergenceReason.NO_COMMON_EPOCH
    if reply.epochs.first is not None and point.offset < reply.epochs.first.start_offset:
        return DivergenceReason.BEHIND_FIRST_EPOCH
    # An ack of 0 would not resume there: it means "from your first byte".
    if point.offset <= own.min_offset:
        return DivergenceReason.TRUNCATES_TO_NOTHING
    return StartPlan(point.offset, point.rule)


def newest_file_offset(reply: HandshakeReply, config: SlaveConfig) -> LogOffset:
    """Return where the master's newest file starts, whose files are as long as the slave's."""
    return LogOffset(reply.max_offset - reply.max_offset % config.mapped_file_bytes)


def _empty_start(reply: HandshakeReply, config: SlaveConfig) -> LogOffset:
    first = reply.epochs.first
    if first is None or not config.start_at_file:
        return LogOffset(0)
    if config.sync_from_last_file and newest_file_offset(reply, config) >= first.start_offset:
        return LogOffset(0)
    files = -(-first.start_offset // config.mapped_file_bytes)
    return LogOffset(files * config.mapped_file_bytes)
