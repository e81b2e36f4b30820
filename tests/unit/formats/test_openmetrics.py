"""OpenMetrics text: every rule that a history must keep, and an import that can be repeated."""

import os
import re
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.cli import main
from slo_pipeline.formats import openmetrics
from slo_pipeline.formats.exposition import Series
from slo_pipeline.formats.openmetrics import OpenMetricsError, timed_samples
from slo_pipeline.jobs.landing import openmetrics as land_text
from slo_pipeline.jobs.landing.openmetrics import land
from testkit.generators.counter_history import history

PAGE = """# HELP x what it counts
# TYPE x counter
x_total{path="/a b",quote="a \\"b\\" # {c}"} 12 1790000000.25 # {trace="t"} 1 1790000000
x_total{path="/"} 1e3 1790000000.5
up 1 1790000001
# EOF
"""


def test_a_sample_is_name_labels_value_and_microseconds() -> None:
    found = list(timed_samples(PAGE.splitlines(keepends=True)))
    assert [(one.series.metric, one.ts_us, one.value) for one in found] == [
        ("x_total", 1_790_000_000_250_000, 12.0),
        ("x_total", 1_790_000_000_500_000, 1_000.0),
        ("up", 1_790_000_001_000_000, 1.0),
    ]
    assert found[0].series == Series("x_total", (("path", "/a b"), ("quote", 'a "b" # {c}')))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x_total 1 1\n", "does not end with '# EOF'"),
        ("x_total 1\n# EOF\n", "line 1: x_total has no timestamp"),
        ("x_total 1 1\nx_total one 2\n# EOF\n", "line 2: invalid value 'one'"),
        ("x_total 1 1_0\n# EOF\n", "line 1: invalid timestamp '1_0' (expected a number)"),
        ("x_total 1 1790000000000\n# EOF\n", "line 1: invalid timestamp 1790000000000 (expected seconds"),
        ("x_total 1 nan\n# EOF\n", "line 1: invalid timestamp 'nan' (expected a time)"),
        ('x_total{a="1" 1 1\n# EOF\n', "line 1: "),
        ("# EOF\nx_total 1 1\n", "line 2: text after '# EOF' of line 1"),
    ],
)
def test_a_line_that_breaks_a_rule_is_named(text: str, said: str) -> None:
    with pytest.raises(OpenMetricsError) as raised:
        list(timed_samples(text.splitlines(keepends=True)))
    assert said in str(raised.value)


@given(st.text(max_size=60))
def test_rubbish_is_refused_and_nothing_else_is_raised(text: str) -> None:
    try:
        list(timed_samples([text]))
    except OpenMetricsError:
        return
    assert text.rstrip("\r\n") == "# EOF"


def _files(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(directory)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in directory.rglob("*.parquet")
    }


def test_an_import_lands_every_sample_and_a_second_one_changes_nothing(tmp_path: Path) -> None:
    made = history(series=6, hours=30, interval_s=60)
    (tmp_path / "h.om").write_text(made.text)
    assert land(tmp_path / "h.om", tmp_path / "D").samples == made.samples
    first = _files(tmp_path / "D")
    assert len(first) == 2  # two days
    rows = [pq.read_table(tmp_path / "D" / name, partitioning=None) for name in first]
    assert sum(table.num_rows for table in rows) == made.samples
    assert {name for table in rows for name in table["instance"].unique().to_pylist()} == {
        "i0",
        "i1",
        "i2",
        "i3",
    }
    land(tmp_path / "h.om", tmp_path / "D")
    assert _files(tmp_path / "D") == first


def test_what_an_interrupted_import_left_out_is_added(tmp_path: Path) -> None:
    (tmp_path / "h.om").write_text(history(series=3, hours=30, interval_s=300).text)
    land(tmp_path / "h.om", tmp_path / "D")
    whole = _files(tmp_path / "D")
    (tmp_path / "D" / max(whole)).unlink()
    land(tmp_path / "h.om", tmp_path / "D")
    assert {name: bytes_ for name, (_, bytes_) in _files(tmp_path / "D").items()} == {
        name: bytes_ for name, (_, bytes_) in whole.items()
    }


def test_a_bad_line_lands_nothing(tmp_path: Path) -> None:
    (tmp_path / "h.om").write_text("x_total 1 1\nx_total\n# EOF\n")
    with pytest.raises(OpenMetricsError, match=r"h\.om: line 2"):
        land(tmp_path / "h.om", tmp_path / "D")
    assert not (tmp_path / "D").exists()


def _one(line: str) -> tuple[str, dict[str, str], int, float]:
    (found,) = timed_samples([f"{line}\n", "# EOF\n"])
    return found.series.metric, dict(found.series.labels), found.ts_us, found.value


@pytest.mark.parametrize(
    ("line", "labels"),
    [
        pytest.param(
            'm{"service.name"="a",b="1"} 1 2', {"service.name": "a", "b": "1"}, id="quoted-label-name"
        ),
        pytest.param('{"m",b="1"} 1 2', {"b": "1"}, id="name-in-braces"),
        pytest.param('{b="1","m"} 1 2', {"b": "1"}, id="name-behind-a-label"),
        pytest.param('{__name__="m",b="1"} 1 2', {"b": "1"}, id="name-as-a-label"),
        pytest.param('  \tm{b="1"} 1 2', {"b": "1"}, id="leading-blanks"),
        pytest.param('m { b = "1" }\t1\t2 ', {"b": "1"}, id="blanks-between"),
        pytest.param('m{b="1"}1 2', {"b": "1"}, id="no-blank-behind-the-braces"),
        pytest.param(r'm{b="tab\tzw\u200bq"} 1 2', {"b": "tab\tzw\u200bq"}, id="escapes-of-go"),
        pytest.param(
            r'm{b="\a\b\f\r\v\x00\xc3\xa9"} 1 2', {"b": "\a\b\f\r\v\0\u00e9"}, id="more-escapes-of-go"
        ),
        pytest.param(r'm{b="\U0001f600\ud800"} 1 2', {"b": "\U0001f600\ufffd"}, id="half-a-surrogate"),
        pytest.param(r'm{b="\\t\\u200b\q"} 1 2', {"b": r"\t\u200b\q"}, id="backslashes"),
    ],
)
def test_a_series_is_read_however_it_is_written(line: str, labels: dict[str, str]) -> None:
    assert _one(line) == ("m", labels, 2_000_000, 1.0)


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("1700000000.123456789", 1_700_000_000_123_456),
        ("1700000000.9999999", 1_700_000_000_999_999),
        ("-1.5", -1_500_000),
        ("-0.0000001", -1),
        ("1.7e+09", 1_700_000_000_000_000),
        ("1e-999999999", 0),
        ("253402300799", 253_402_300_799_000_000),
        ("-62135596800", -62_135_596_800_000_000),
    ],
)
def test_a_timestamp_is_cut_to_microseconds_and_never_later(text: str, us: int) -> None:
    assert _one(f"m 1 {text}")[2] == us


@given(st.decimals(-(10**10), 10**11, places=9))
def test_a_timestamp_is_exact(seconds: Decimal) -> None:
    us = _one(f"m 1 {seconds:f}")[2]
    assert us <= seconds * 1_000_000 < us + 1


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=8)
VALUES = st.text(st.characters(codec="utf-8"), max_size=12)
BLANKS = st.sampled_from(["", " ", "\t", "  "])
PLAIN = re.compile("[a-zA-Z_][a-zA-Z0-9_]*")


def _exposed(text: str) -> str:
    """Write a text as the exposition formats do."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _by_go(text: str) -> str:
    """Write a text as Go's `strconv.Quote` does."""
    short = {"\t": r"\t", "\r": r"\r", "\a": r"\a", "\v": r"\v", "\f": r"\f", "\b": r"\b"}

    def shown(one: str) -> str:
        if one in short or one.isprintable():
            return short.get(one, one)
        code = ord(one)
        return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return "".join(_exposed(one) if one in '\\\n"' else shown(one) for one in text)


@given(NAMES, st.dictionaries(NAMES, VALUES, max_size=4), st.data())
def test_what_any_writer_writes_is_read_as_it_was_meant(
    metric: str, labels: dict[str, str], data: st.DataObject
) -> None:
    labels.pop("__name__", None)
    escape = data.draw(st.sampled_from([_exposed, _by_go]))
    blank = data.draw(BLANKS)
    parts = []
    for name, value in labels.items():
        is_plain = PLAIN.fullmatch(name) and data.draw(st.booleans())
        shown = name if is_plain else f'"{escape(name)}"'
        parts.append(f'{blank}{shown}{blank}={blank}"{escape(value)}"{blank}')
    is_outside = PLAIN.fullmatch(metric) and data.draw(st.booleans())
    if not is_outside:
        parts.insert(data.draw(st.integers(0, len(parts))), f'{blank}"{escape(metric)}"{blank}')
    line = f"{blank}{metric if is_outside else ''}{blank}{{{','.join(parts)}}} 1 2"
    assert _one(line) == (metric, labels, 2_000_000, 1.0)


def _landed(directory: Path) -> list[dict[str, Any]]:
    paths = sorted(directory.rglob("*.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


@pytest.mark.parametrize(
    "stamps",
    [
        pytest.param([1, 1, 2], id="neighbours"),
        pytest.param([1, 3, 2, 1], id="not-in-the-order-of-time"),
        pytest.param([3, 1, 3, 2, 2], id="before-and-after-the-disorder"),
    ],
)
def test_samples_of_one_time_count_once_and_the_first_one_stays(
    stamps: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f'm{{a="1",b="2"}} {place} {at}' for place, at in enumerate(stamps)]
    lines += [f'm{{b="2",a="1"}} 100 {stamps[0]}', f'm{{a="1"}} 100 {stamps[0]}']
    (tmp_path / "h.om").write_text("\n".join([*lines, "# EOF"]))
    assert main(["import", "openmetrics", str(tmp_path / "h.om"), "--into", str(tmp_path / "D")]) == 0
    kept = {(len(row["labels"]), row["ts"].second): row["value"] for row in _landed(tmp_path / "D")}
    assert kept == {(2, at): float(stamps.index(at)) for at in set(stamps)} | {(1, stamps[0]): 100.0}
    assert f"{len(stamps) + 1 - len(set(stamps))} samples left out" in capsys.readouterr().out


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    made = history(series=3, hours=1, interval_s=60)
    (tmp_path / "h.om").write_text(made.text)
    land(tmp_path / "h.om", tmp_path / "of-file")
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text(made.text))
    writer.start()
    assert land(tmp_path / "pipe", tmp_path / "of-pipe").samples == made.samples
    writer.join()
    assert {name: text for name, (_, text) in _files(tmp_path / "of-pipe").items()} == {
        name: text for name, (_, text) in _files(tmp_path / "of-file").items()
    }


def test_a_sample_before_1970_lies_in_its_own_day(tmp_path: Path) -> None:
    (tmp_path / "h.om").write_text("m 1 -1.5\nm 2 0\nm 3 -86400\nm 4 -86400.5\n# EOF\n")
    assert land(tmp_path / "h.om", tmp_path / "D").segments == 3
    rows = {
        path.parent.name: pq.ParquetFile(path).read()["value"].to_pylist()
        for path in (tmp_path / "D").rglob("*.parquet")
    }
    assert rows == {"day=1969-12-30": [4.0], "day=1969-12-31": [1.0, 3.0], "day=1970-01-01": [2.0]}


def test_a_text_is_never_in_memory_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(land_text, "SEGMENT_ROWS_MAX", 50)
    made = history(series=4, hours=2, interval_s=60)
    (tmp_path / "h.om").write_text(made.text)
    landed = land(tmp_path / "h.om", tmp_path / "D")
    assert landed.segments >= made.samples // 50
    assert len(_landed(tmp_path / "D")) == made.samples


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ("SERIES_MAX", "more than 3 series"),
        ("LINE_CHARACTERS_MAX", "line 1: longer than 3 characters"),
        ("DISORDERED_STAMPS_MAX", "more than 3 samples of series that are not in the order of time, m among"),
    ],
)
def test_what_is_beyond_a_bound_is_named(
    bound: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f'm{{a="{number}"}} 1 {at}' for number in range(4) for at in (2, 1)]
    (tmp_path / "h.om").write_text("\n".join([*lines, "# EOF"]))
    monkeypatch.setattr(openmetrics, bound, 3)
    with pytest.raises(OpenMetricsError, match=said):
        land(tmp_path / "h.om", tmp_path / "D")
