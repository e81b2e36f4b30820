"""The inputs of a master's machine about its log: settings, the log's extent, and a finder of record ends.

The machine opens nothing. Its caller looks at the log and hands over a `LogExtent` with each call; an extent
is true for its moment only, and the machine notices by `generation` when the log was cut in between.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.epoch import EpochList

BATCH_BYTES_DEFAULT: Final = 512 << 10
"""Large enough that system calls do not count, small enough that a new epoch or a stop never waits long."""

RecordEnd = Callable[[int, int], int]
"""`record_end(from_offset, limit_offset)`: the last record end in (from, limit], else `from_offset`.

Both offsets lie in one file of the log; `from_offset` need not be a record's start.
"""


@dataclass(frozen=True, slots=True)
class MasterConfig:
    """How connections are served.

    Attributes:
        mapped_file_bytes: length of a log file, which no frame crosses.
        batch_bytes: the largest body, unless one record is larger.
        flow_bytes_per_s_max: bodies of one connection in a second, 0 for no limit; as
            maxHaTransferByteInSecond.
    """

    mapped_file_bytes: int
    batch_bytes: int = BATCH_BYTES_DEFAULT
    flow_bytes_per_s_max: int = 0


@dataclass(frozen=True, slots=True)
class LogExtent:
    """What the log holds at one moment: [min_offset, end_offset), the two equal if it is empty.

    Attributes:
        min_offset: offset of the oldest byte.
        end_offset: end of the last whole record that may be served.
        confirm_offset: below it nothing is ever cut; at the end of a record.
        epochs: the epoch list.
        generation: another number after each truncation.
    """

    min_offset: LogOffset
    end_offset: LogOffset
    confirm_offset: LogOffset
    epochs: EpochList
    generation: int = 0

    @property
    def is_empty(self) -> bool:
        """Say whether the extent is empty."""
        return self.end_offset == self.min_offset
