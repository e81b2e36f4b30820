"""A modelled broker's log: one record per message, numbered by offset, and the epochs that wrote them.

Its list of epochs is as strict as RocketMQ's: an epoch that begins where the last one begins is refused, and
later writes belong to the last one, which is the epoch reported to controllers and slaves.

Where two logs part is found by the sidecar's own `truncation_point`. The log outlives the
process: the model's brokers are killed, they do not lose power (what a broker loses then is a
matter of its own flush settings).

Source: EpochFileCache.appendEntry, AutoSwitchHAService.changeToMaster, AutoSwitchHAClient of 5.4.0.
"""

from typing import NamedTuple

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.epoch.entries import EpochEntry, EpochList, truncation_point


class LoggedMessage(NamedTuple):
    """One message as it lies in the log, and the epoch of the list that covers it."""

    epoch: int
    message: str


class BrokerLog:
    """Records and epochs."""

    def __init__(self) -> None:
        self.records: list[LoggedMessage] = []
        self.epochs = EpochList()

    @property
    def end(self) -> int:
        """Offset of the next record."""
        return len(self.records)

    @property
    def last_epoch(self) -> int:
        """The newest epoch, -1 without one."""
        return self.epochs.last_epoch

    def open_epoch(self, epoch: int) -> None:
        """Note that a master of this epoch writes from here on.

        Nothing changes unless epoch or start is above the last entry's.
        """
        entry = EpochEntry(epoch, LogOffset(self.end))
        if self.epochs.accepts(entry):
            self.epochs = self.epochs.appended(entry)

    def append(self, message: str) -> int:
        """Write a message in the newest epoch; return the log's new end."""
        self.records.append(LoggedMessage(self.last_epoch, message))
        return self.end

    def receive(self, records: list[LoggedMessage]) -> None:
        """Take records of the master."""
        for record in records:
            self.open_epoch(record.epoch)
            self.append(record.message)

    def common_end(self, master: EpochList, master_end: int) -> int:
        """Return how much of this log the master has, too."""
        point = truncation_point(
            self.epochs.starting_up_to(LogOffset(self.end)),
            LogOffset(self.end),
            master,
            LogOffset(master_end),
        )
        return 0 if point.offset is None else point.offset

    def truncate(self, end: int) -> None:
        """Forget what lies behind, and every epoch that does not begin below.

        RocketMQ's slave does so even if nothing lies behind.
        """
        del self.records[end:]
        self.epochs = self.epochs.truncate_suffix_by_offset(LogOffset(end))
