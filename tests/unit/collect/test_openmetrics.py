"""OpenMetrics text: every rule that a history must keep, and an import that can be repeated."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo_pipeline.collect.exposition import Series
from slo_pipeline.jobs.land_text import land
from slo_pipeline.sources.openmetrics import OpenMetricsError, timed_samples
from testkit.counter_history import history

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
        ("x_total 1 1\nx_total one 2\n# EOF\n", "line 2: value 'one' is no number"),
        ("x_total 1 1_0\n# EOF\n", "line 1: timestamp '1_0' is no number"),
        ("x_total 1 1790000000000\n# EOF\n", "line 1: timestamp 1790000000000 is no second"),
        ("x_total 1 nan\n# EOF\n", "line 1: timestamp 'nan' is no time"),
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
