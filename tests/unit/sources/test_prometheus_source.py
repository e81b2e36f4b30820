"""The requests to a Prometheus and the parsing of its answers, without one and without Spark's JVM."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from threading import Thread
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, LessThan, StringContains
from pyspark.sql.pandas.types import to_arrow_schema

from slo_pipeline.schemas.frames import struct_type
from slo_pipeline.schemas.segments import SAMPLES
from slo_pipeline.sources.prometheus_raw import PrometheusReader, asked, narrowed
from slo_pipeline.sources.prometheus_wire import PrometheusError, PrometheusServer, TimeRange, fetch
from slo_pipeline.sources.selectors import Matcher, SelectorError, parse, text_of

HOUR_MS = 3_600_000
OPTIONS = {"url": "http://p:9090", "match": "x_total", "start": "0", "end": "21600"}


@pytest.mark.parametrize(
    ("text", "matchers"),
    [
        ("x_total", (("__name__", "=", "x_total"),)),
        ('x_total{a="1", b!~"c|d",}', (("__name__", "=", "x_total"), ("a", "=", "1"), ("b", "!~", "c|d"))),
        ('{__name__=~"rmqha_.*"}', (("__name__", "=~", "rmqha_.*"),)),
        ('{a="q\\"} ,b=\\"x"}', (("a", "=", 'q"} ,b="x'),)),
    ],
)
def test_a_selector_is_its_matchers_and_comes_back(text: str, matchers: tuple[Any, ...]) -> None:
    found = parse(text)
    assert found == tuple(Matcher(*one) for one in matchers)
    assert parse(text_of(found)) == found


@pytest.mark.parametrize("text", ["", "{}", '{a!="b"}', 'x{a="1"', "x[5m]", "rate(x)", 'x{a="1"} offset 5m'])
def test_what_is_no_selector_or_selects_everything_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse(text)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("url", "prometheus:9090"),
        ("match", "x{"),
        ("start", "yesterday"),
        ("slice", "7h"),
        ("protocol", "grpc"),
        ("headers", "[1]"),
        ("timeout_s", "soon"),
    ],
)
def test_a_bad_option_is_named_with_its_value(option: str, value: str) -> None:
    with pytest.raises(PrometheusError, match=f"{option}: ") as raised:
        asked(OPTIONS | {option: value})
    assert value in str(raised.value)


def test_slices_tile_the_stretch_and_lie_on_round_borders() -> None:
    found = asked(OPTIONS | {"start": "1800", "end": "2000-01-01T00:00:00+00:00", "slice": "1d"}).slices()
    assert found[0].stretch == TimeRange(1_800_000, 24 * HOUR_MS)
    assert all(one.stretch.end_ms == two.stretch.start_ms for one, two in pairwise(found))
    assert found[-1].stretch.end_ms == int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * 1_000


def test_filters_narrow_what_is_asked_and_others_change_nothing() -> None:
    filters: list[Filter] = [
        GreaterThanOrEqual(("ts",), datetime.fromtimestamp(7_200.5, tz=UTC)),
        LessThan(("ts",), datetime.fromtimestamp(10_800, tz=UTC)),
        EqualTo(("metric",), "y_total"),
        StringContains(("metric",), "z"),
    ]
    what = narrowed(asked(OPTIONS), filters)
    assert what.stretch == TimeRange(7_200_500, 10_800_001)
    assert what.selectors == ((Matcher("__name__", "=", "x_total"), Matcher("__name__", "=", "y_total")),)
    assert asked(OPTIONS).slices() == narrowed(asked(OPTIONS), filters[3:]).slices()


MATRIX = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {
                "metric": {"__name__": "x_total", "instance": "a", "path": "/"},
                "values": [[0, "1"], [9.999, "2"], [10, "3"]],
            }
        ],
    },
}


@contextmanager
def _answering(*, read_status: int, query_body: bytes) -> Iterator[tuple[str, list[str]]]:
    """Serve a store without remote read; yield its address and the requested paths."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            paths.append(self.path)
            self._say(read_status, b"no")

        def do_GET(self) -> None:
            paths.append(self.path)
            self._say(200, query_body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", paths
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_store_without_remote_read_is_asked_for_a_range_and_cut_here() -> None:
    with _answering(read_status=404, query_body=json.dumps(MATRIX).encode()) as (url, paths):
        found = list(fetch(PrometheusServer(url, {}, "auto", 60.0), parse("x_total"), TimeRange(0, 10_000)))
    assert [path.split("?")[0] for path in paths] == ["/api/v1/read", "/api/v1/query"]
    assert [batch.to_pydict()["value"] for batch in found] == [[1.0, 2.0]]
    row = found[0].to_pylist()[0]
    assert (row["metric"], row["instance"], row["labels"]) == (
        "x_total",
        "a",
        [("instance", "a"), ("path", "/")],
    )


def test_batches_have_exactly_the_schema_that_spark_compares_them_with() -> None:
    wanted = to_arrow_schema(struct_type(SAMPLES), timezone="UTC")
    with _answering(read_status=404, query_body=json.dumps(MATRIX).encode()) as (url, _):
        reader = PrometheusReader(asked(OPTIONS | {"url": url}))
        found = [batch.schema for one in reader.partitions() for batch in reader.read(one)]
    assert found
    assert all(schema.equals(wanted) for schema in found)
    assert list(reader.read(None)) == []


@pytest.mark.parametrize("body", [b"<html>", b"{}", b'{"data":{"resultType":"vector","result":[]}}'])
def test_an_answer_that_is_none_of_prometheus_is_an_error_of_its_own(body: bytes) -> None:
    with _answering(read_status=405, query_body=body) as (url, _), pytest.raises(PrometheusError):
        list(fetch(PrometheusServer(url, {}, "auto", 60.0), parse("x_total"), TimeRange(0, 10_000)))


def test_a_refusal_is_not_taken_for_a_store_without_remote_read() -> None:
    with (
        _answering(read_status=403, query_body=b"") as (url, paths),
        pytest.raises(PrometheusError, match="403"),
    ):
        list(fetch(PrometheusServer(url, {}, "auto", 60.0), parse("x_total"), TimeRange(0, 10_000)))
    assert paths == ["/api/v1/read"]
