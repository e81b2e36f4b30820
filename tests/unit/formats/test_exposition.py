"""Prometheus text as RocketMQ's two exporters write it, taken apart."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from slo_pipeline.formats import exposition
from slo_pipeline.formats.exposition import ExpositionParser, Sample, Series
from slo_pipeline.formats.series_text import SeriesCache

# OpenTelemetry 1.44, as in RocketMQ 5.4.0 and 5.5.0: types are right, no timestamps.
NEW_DIALECT = """# HELP rocketmq_messages_in_total default view for counter.
# TYPE rocketmq_messages_in_total counter
rocketmq_messages_in_total{cluster="C",node_id="orders",topic="probe"} 162832.0
# TYPE rocketmq_rpc_latency_milliseconds histogram
rocketmq_rpc_latency_milliseconds_bucket{cluster="C",node_id="orders",le="1.0"} 162585
rocketmq_rpc_latency_milliseconds_bucket{cluster="C",node_id="orders",le="+Inf"} 162832
rocketmq_rpc_latency_milliseconds_count{cluster="C",node_id="orders"} 162832
# TYPE target_info gauge
target_info{service_name="unknown_service:java"} 1
"""

# OpenTelemetry 1.29, as in RocketMQ 5.1.4 to 5.3.3: type lines under other names,
# milliseconds after each value.
OLD_DIALECT = """# TYPE target info
# HELP target Target metadata
target_info{service_name="unknown_service:java"} 1
# TYPE rocketmq_messages_in counter
# HELP rocketmq_messages_in default view for counter.
rocketmq_messages_in_total{cluster="C",node_id="orders",topic="probe"} 162832.0 1763710000123
# TYPE rocketmq_rpc_latency histogram
rocketmq_rpc_latency_milliseconds_bucket{cluster="C",node_id="orders",le="1.0"} 162585.0 1763710000123
rocketmq_rpc_latency_milliseconds_bucket{cluster="C",node_id="orders",le="+Inf"} 162832.0 1763710000123
rocketmq_rpc_latency_milliseconds_count{cluster="C",node_id="orders"} 162832.0 1763710000123
"""


def values(text: str) -> dict[Series, float]:
    page = ExpositionParser().parse(text)
    assert page.malformed == 0
    return {sample.series: sample.value for sample in page.samples}


def test_both_exporters_of_rocketmq_come_out_alike() -> None:
    assert values(OLD_DIALECT) == values(NEW_DIALECT)
    assert len(values(NEW_DIALECT)) == 5


def test_a_timestamp_in_the_page_is_kept_beside_the_value() -> None:
    stamps = {sample.timestamp_ms for sample in ExpositionParser().parse(OLD_DIALECT).samples}
    assert stamps == {None, 1763710000123}


def test_a_second_page_of_known_series_parses_like_the_first() -> None:
    parser = ExpositionParser()
    first = parser.parse(NEW_DIALECT)
    assert parser.parse(NEW_DIALECT) == first
    changed = parser.parse(NEW_DIALECT.replace("162832.0", "162833.0"))
    assert changed.samples[0] == Sample(first.samples[0].series, 162833.0, None)


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        pytest.param('m{a="x} y"} 1', (("a", "x} y"),), 1.0, id="brace-and-space-in-a-value"),
        pytest.param('m{a="q\\"uote",b="back\\\\slash",c="li\\nne"} 2', None, 2.0, id="escapes"),
        pytest.param('m{a="1",} 3', (("a", "1"),), 3.0, id="comma-at-the-end"),
        pytest.param('m{ a = "1" , b = "2" } 4', (("a", "1"), ("b", "2")), 4.0, id="spaces"),
        pytest.param("m{} 5", (), 5.0, id="no-labels-in-braces"),
        pytest.param("m 6", (), 6.0, id="no-braces"),
        pytest.param("m\t7", (), 7.0, id="tab"),
        pytest.param('m{a="1"} 8 # {trace_id="ab_c"} 0.5', (("a", "1"),), 8.0, id="exemplar"),
        pytest.param('m{a="# {x} y"} 9', (("a", "# {x} y"),), 9.0, id="exemplar-look-alike"),
        pytest.param("m +Inf", (), math.inf, id="infinity"),
        pytest.param(' \tm{a="1"} 10', (("a", "1"),), 10.0, id="blanks-before-it"),
        pytest.param('m {a="1"} 11', (("a", "1"),), 11.0, id="blank-before-the-braces"),
        pytest.param('m{"a.b"="1",c="2"} 12', (("a.b", "1"), ("c", "2")), 12.0, id="quoted-label-name"),
        pytest.param('{"m",a="1"} 13', (("a", "1"),), 13.0, id="name-in-braces"),
        pytest.param('{a="1", "m"} 14', (("a", "1"),), 14.0, id="name-in-braces-behind-a-label"),
    ],
)
def test_a_line_of_the_format(line: str, labels: tuple[tuple[str, str], ...] | None, value: float) -> None:
    wanted = labels
    if wanted is None:
        wanted = (("a", 'q"uote'), ("b", "back\\slash"), ("c", "li\nne"))
    parser = ExpositionParser()
    for _ in range(2):
        page = parser.parse(line)
        assert page.malformed == 0
        assert page.samples == [Sample(Series("m", wanted), value, None)]


def test_not_a_number_is_a_value() -> None:
    (sample,) = ExpositionParser().parse("m NaN").samples
    assert math.isnan(sample.value)


@pytest.mark.parametrize(
    "line",
    [
        "m",
        "m x",
        "m 1_0",
        "m 1 2 3",
        "m 1 1.5",
        "m 1 -1",
        "m 1 999999999999999",
        "{a='1'} 1",
        'm{a="1" 1',
        'm{a="1",a="2"} 1',
        "m{a=1} 1",
        "m{a} 1",
        'm{"n"} 1',
        '{"m","n"} 1',
        '{""} 1',
        'm{""="1"} 1',
        '{a="1"} 1',
        "{} 1",
        "9m 1",
        "<html>",
    ],
)
def test_a_bad_line_is_counted_and_costs_no_other(line: str) -> None:
    page = ExpositionParser().parse(f"before 1\n{line}\nafter 2\n")
    assert [sample.series.metric for sample in page.samples] == ["before", "after"]
    assert page.malformed == 1


def test_a_page_with_ever_new_labels_does_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "SERIES_CACHED_MAX", 10)
    parser = ExpositionParser()
    for number in range(100):
        assert len(parser.parse(f'm{{id="{number}"}} 1').samples) == 1
        assert len(parser._series) <= 10


def test_a_page_of_as_many_series_as_are_allowed_is_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f'm{{id="{number}"}} 1\n' for number in range(exposition.PAGE_SERIES_MAX))
    assert exposition.lines_of(text.encode()) == exposition.PAGE_SERIES_MAX
    parser = ExpositionParser()
    parser.parse(text)
    monkeypatch.setattr(exposition, "split_series", None)
    for _ in range(2):
        assert parser.parse(text).malformed == 0


def test_series_that_are_asked_for_stay_while_others_come_and_go() -> None:
    cache = SeriesCache(20)
    for number in range(1_000):
        assert number == 0 or cache.get("kept") is not None
        cache.put(str(number), Series("m", (("id", str(number)),)))
        cache.put("kept", Series("kept", ())) if number == 0 else None
        assert len(cache) <= 20


@given(st.lists(st.sampled_from(["m 1", "# TYPE m gauge", "#", "n 2"])).map("\n".join))
def test_the_lines_of_a_page_are_counted_without_reading_them(text: str) -> None:
    assert exposition.lines_of(text.encode()) == len(ExpositionParser().parse(text).samples)


@given(st.text(alphabet='m{}="a,\\ \n#1.e_\t', max_size=60))
def test_any_text_is_parsed_or_counted(text: str) -> None:
    parser = ExpositionParser()
    first, again = parser.parse(text), parser.parse(text)
    assert repr(first) == repr(again)
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip(" \t").startswith("#")]
    assert len(first.samples) + first.malformed == len(lines)


@given(
    st.lists(
        st.tuples(st.text(max_size=10), st.floats(allow_nan=False)),
        max_size=10,
        unique_by=lambda pair: pair[0],
    )
)
def test_what_the_client_library_writes_is_read_as_it_reads_it_itself(rows: list[tuple[str, float]]) -> None:
    registry = CollectorRegistry()
    gauge = Gauge("g", "a gauge", ["label"], registry=registry)
    for label, value in rows:
        gauge.labels(label.encode(errors="replace").decode()).set(value)
    Counter("c", "a counter", registry=registry).inc()
    Histogram("h", "a histogram", registry=registry).observe(1)
    text = generate_latest(registry).decode()
    oracle = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert {(s.metric, frozenset(s.labels)): value for s, value in values(text).items()} == oracle
