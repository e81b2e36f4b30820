"""A modelled broker's log: one record a message, a record's offset is its number, and the epochs that wrote them.

Where two logs part is found by the sidecar's own `truncation_point`. The log outlives the process: the model's brokers are
killed, they do not lose power (what a broker loses then is a matter of its own flush settings).
"""

from typing import NamedTuple

from ha_sidecar.epoch.entries import EpochEntry, EpochList, truncation_point


class Record(NamedTuple):
    """One message as it lies in the log."""

    epoch: int
    message: str


class BrokerLog:
    """Records and epochs."""

    def __init__(self) -> None:
        self.records: list[Record] = []
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
        """Begin to write as the master of an epoch; an epoch that wrote nothing leaves no trace."""
        if epoch > self.last_epoch:
            kept = [entry for entry in self.epochs if entry.start_offset < self.end]
            self.epochs = EpochList([*kept, EpochEntry(epoch, self.end)])

    def append(self, message: str) -> int:
        """Write a message in the newest epoch; return the log's new end."""
        self.records.append(Record(self.last_epoch, message))
        return self.end

    def receive(self, records: list[Record]) -> None:
        """Take records of the master."""
        for record in records:
            if record.epoch != self.last_epoch:
                self.open_epoch(record.epoch)
            self.records.append(record)

    def common_end(self, master: EpochList, master_end: int) -> int:
        """Return how much of this log the master has, too."""
        point = truncation_point(self.epochs.starting_up_to(self.end), self.end, master, master_end)
        return 0 if point.offset is None else point.offset

    def truncate(self, end: int) -> None:
        """Forget what lies behind."""
        del self.records[end:]
        self.epochs = self.epochs.truncate_suffix_by_offset(end)
