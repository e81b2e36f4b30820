"""Epoch entries, the epoch file's text and the truncation point: pure values, no I/O."""

from ha_sidecar.epoch.entries import (
    NO_EPOCH,
    OPEN_END_OFFSET,
    EpochEntry,
    EpochList,
    EpochOrderError,
    PointRule,
    TruncationPoint,
    truncation_point,
)
from ha_sidecar.epoch.file_format import EpochFileError

__all__ = [
    "NO_EPOCH",
    "OPEN_END_OFFSET",
    "EpochEntry",
    "EpochFileError",
    "EpochList",
    "EpochOrderError",
    "PointRule",
    "TruncationPoint",
    "truncation_point",
]
