"""The epoch file's text: what Java writes is read, what we write Java reads, and damage is named."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_sidecar.epoch import EpochFileError, EpochList
from ha_sidecar.epoch.file_format import FILE_BYTES_MAX, decode, encode

GOLDEN = b"2\n773307083\n7-7000\n8-8000\n"


def test_the_golden_file_is_written_byte_for_byte() -> None:
    assert encode(EpochList.of((7, 7000), (8, 8000))) == GOLDEN


def test_the_golden_file_is_read() -> None:
    assert decode(GOLDEN) == EpochList.of((7, 7000), (8, 8000))


def test_checksum_zero_means_unchecked() -> None:
    assert decode(b"1\n0\n7-7000\n") == EpochList.of((7, 7000))


def test_windows_line_ends_count_into_the_checksum() -> None:
    body = b"7-7000\r\n"
    crc = zlib.crc32(body) & 0x7FFFFFFF
    assert decode(b"1\r\n%d\r\n" % crc + body) == EpochList.of((7, 7000))


def test_an_empty_list_has_no_file() -> None:
    with pytest.raises(ValueError, match="must not be written"):
        encode(EpochList())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "0 lines", id="empty"),
        pytest.param(b"2\n773307083\n7-7000\n", "announces 2 entries, 1 follow", id="cut-short"),
        pytest.param(b"2\n773307083\n7-7000\n8-8001\n", "checksum", id="flipped-digit"),
        pytest.param(b"2\n0\n8-8000\n7-9000\n", "does not follow", id="descending"),
        pytest.param(b"1\n0\n7 7000\n", "lacks a '-'", id="no-separator"),
        pytest.param(b"1\n0\n-7-7000\n", "number is expected", id="negative-epoch"),
        pytest.param(b"x\n0\n", "line 1", id="not-a-number"),
        pytest.param(b"1\n0\n7-1_0\n", "number is expected", id="python-only-number"),
        pytest.param(b"1\n0\n7-" + b"9" * 5000 + b"\n", "number is expected", id="endless-number"),
        pytest.param(b"0" * (FILE_BYTES_MAX + 1), "bytes", id="too-large"),
    ],
)
def test_damage_is_refused_and_named(data: bytes, message: str) -> None:
    with pytest.raises(EpochFileError, match=message):
        decode(data)


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 2**40)), max_size=20))
def test_what_is_written_is_read_back(steps: list[tuple[int, int]]) -> None:
    epoch, start, pairs = 0, 0, []
    for epoch_step, start_step in steps:
        epoch, start = epoch + epoch_step, start + start_step
        pairs.append((epoch, start))
    if pairs:
        assert decode(encode(EpochList.of(*pairs))) == EpochList.of(*pairs)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_list_or_an_epoch_file_error(data: bytes) -> None:
    try:
        entries = decode(data)
    except EpochFileError:
        return
    assert decode(encode(entries)) == entries
