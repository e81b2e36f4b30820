"""A span of a log is checked to its given end and no further.

A process of its own says of it what the function says.
"""

import contextlib
import os
import random
import signal
import socket
from pathlib import Path

import pytest

from ha_sidecar.commitlog.checking import Checker
from ha_sidecar.commitlog.layout import Layout
from ha_sidecar.commitlog.records import RecordKind
from ha_sidecar.commitlog.recovery import check_span
from testkit.ha.messages import boundaries, log_bytes

FILE_BYTES = 4096
LOG = log_bytes(200, FILE_BYTES)
STARTS = boundaries(LOG, FILE_BYTES)
DAMAGED = 90


def written(directory: Path, log: bytes) -> Layout:
    """Write the log's files, the last one with zeros behind the end."""
    layout = Layout(directory, FILE_BYTES)
    for start in range(0, len(log), FILE_BYTES):
        layout.path(start).write_bytes(log[start : start + FILE_BYTES].ljust(FILE_BYTES, b"\0"))
    return layout


@pytest.fixture
def damaged(tmp_path: Path) -> Layout:
    """A log whose record of that number has another body than its checksum says."""
    log = bytearray(LOG)
    log[STARTS[DAMAGED] + 95] ^= 1
    return written(tmp_path, bytes(log))


def test_a_span_is_whole_up_to_the_last_record_that_ends_in_it(tmp_path: Path) -> None:
    layout = written(tmp_path, LOG)
    for seed in range(300):
        chosen = random.Random(seed)
        from_offset = chosen.choice(STARTS)
        to_offset = chosen.randint(from_offset, len(LOG))
        offset, record = check_span(layout, from_offset, to_offset)
        assert offset == max(start for start in STARTS if start <= to_offset), (from_offset, to_offset)
        assert record.kind in (RecordKind.TORN, RecordKind.UNUSED), (
            to_offset
        )  # the first bytes of a size are zeros


def test_what_stands_above_a_span_is_not_read(tmp_path: Path) -> None:
    to_offset = STARTS[DAMAGED]
    layout = written(tmp_path, LOG[:to_offset] + b"\xff" * 600)
    assert check_span(layout, 0, to_offset)[0] == to_offset
    assert check_span(layout, 0, to_offset + 600)[1].kind is RecordKind.DAMAGED


def test_a_damaged_record_is_named_once_it_lies_in_the_span(damaged: Layout) -> None:
    start, end = STARTS[DAMAGED], STARTS[DAMAGED + 1]
    assert check_span(damaged, 0, end - 1)[1].kind is RecordKind.TORN
    offset, record = check_span(damaged, 0, end)
    assert (offset, record.kind, record.problem) == (start, RecordKind.DAMAGED, "body checksum")
    assert check_span(damaged, end, len(LOG))[0] == len(LOG)


def test_the_process_says_what_the_function_says(damaged: Layout) -> None:
    spans = [(0, 0), (0, STARTS[DAMAGED]), (STARTS[3], STARTS[DAMAGED] + 10), (0, len(LOG)), (0, STARTS[50])]
    with contextlib.closing(Checker(damaged)) as checker:
        for span in spans:
            assert not checker.is_busy
            assert not checker.has_verdict()
            checker.tell(*span)
            assert checker.is_busy
            offset, record = checker.verdict()
            found_offset, found = check_span(damaged, *span)
            assert (offset, record.kind, record.problem) == (found_offset, found.kind, found.problem)


def test_the_process_waits_for_spans_whatever_the_default_time_out_of_sockets_is(
    damaged: Layout,
) -> None:
    before_s = socket.getdefaulttimeout()
    socket.setdefaulttimeout(60.0)
    try:
        checker = Checker(damaged)
    finally:
        socket.setdefaulttimeout(before_s)
    with contextlib.closing(checker):
        checker.tell(0, STARTS[50])
        assert checker.verdict()[0] == STARTS[50]


def test_a_checking_process_that_was_killed_vouches_for_nothing(tmp_path: Path) -> None:
    layout = written(tmp_path, LOG)
    with contextlib.closing(Checker(layout)) as checker:
        os.kill(checker.pid, signal.SIGKILL)
        checker.tell(0, len(LOG))
        with pytest.raises(OSError, match="ended with status -9"):
            checker.verdict()


def test_the_checking_process_ends_with_whoever_asked(tmp_path: Path) -> None:
    checker = Checker(written(tmp_path, LOG))
    checker.tell(0, len(LOG))
    checker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(checker.pid, 0)
