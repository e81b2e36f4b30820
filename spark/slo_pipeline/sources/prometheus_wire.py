"""Raw samples out of a Prometheus: remote read, and an instant query of a range where remote read is missing.

Problem: `query_range` looks plausible and is not raw data: it repeats old values into gaps, so resets and
outages vanish. Shape: `fetch` asks for one selector and one half-open stretch of time and returns a table of
the samples segment. Remote read (protobuf and snappy) is tried first; a store without it (Thanos, some
gateways) gets a query `selector[range]` at the end of the stretch, which also returns samples with their own
timestamps. Ranges of Prometheus 2 hold both borders and those of 3 only the right one, so the stretch is cut
here and not trusted. Never: a staleness marker is not a sample.

Source: prometheus/prometheus prompb/remote.proto and types.proto; "Remote Read API"; HTTP API, "Instant
queries".
"""

import http.client
import struct
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from controller_core import bounded_json
from controller_core.error_text import error_text
from slo_pipeline.schemas.segments import SAMPLES
from slo_pipeline.schemas.series_ids import series_id
from slo_pipeline.sources.selectors import NAME_LABEL, TYPES, Matcher, text_of

Protocol = Literal["auto", "remote_read", "query"]
# Answers of a server without remote read: not found, wrong method, not implemented.
WITHOUT_REMOTE_READ: Final = frozenset({404, 405, 501})
ANSWER_BYTES_MAX: Final = 2_000_000_000
SNAPPY_RATIO_MAX: Final = 24
"""Snappy writes at most 64 bytes of content as 3 bytes."""
BATCH_ROWS: Final = 65_536
STALE_BITS: Final = 0x7FF0000000000002
INSTANCE: Final = "instance"
US_PER_MS: Final = 1_000


class PrometheusError(Exception):
    """The store did not answer as Prometheus does; the text has address, status and its words."""


class TimeRange(NamedTuple):
    """A half-open stretch of time, milliseconds since 1970."""

    start_ms: int
    end_ms: int


class PrometheusServer(NamedTuple):
    """Where to ask.

    Attributes:
        url: base address, with the prefix that some stores have before `/api/v1`.
        headers: sent along, such as a tenant or a token.
        protocol: `auto` takes remote read where there is one.
        timeout_s: of one request.
    """

    url: str
    headers: Mapping[str, str]
    protocol: Protocol
    timeout_s: float


Series = tuple[dict[str, str], list[int], list[float]]


def fetch(
    store: PrometheusServer, matchers: tuple[Matcher, ...], stretch: TimeRange
) -> Iterator[pa.RecordBatch]:
    """Yield the samples of one selector in one stretch, in the schema of the samples segment.

    Raises:
        PrometheusError: the store refused, or its answer is invalid.
    """
    if store.protocol == "query":
        return batches(_queried(store, matchers, stretch), stretch)
    status, body = _ask(store, "/api/v1/read", _read_request(matchers, stretch))
    if status in WITHOUT_REMOTE_READ and store.protocol == "auto":
        return batches(_queried(store, matchers, stretch), stretch)
    if status != 200:
        raise PrometheusError(f"{store.url}/api/v1/read: status {status}: {body[:200]!r}")
    return batches(read_response(body), stretch)


def batches(found: Iterable[Series], stretch: TimeRange) -> Iterator[pa.RecordBatch]:
    """Lay series out as batches of BATCH_ROWS rows at least, except for the last one."""
    series: list[dict[str, str]] = []
    ts_us: list[int] = []
    values: list[float] = []
    place: list[int] = []
    for labels, times_ms, numbers in found:
        kept = [
            (at_ms * US_PER_MS, value)
            for at_ms, value in zip(times_ms, numbers, strict=True)
            if stretch.start_ms <= at_ms < stretch.end_ms and not (value != value and _is_stale(value))
        ]
        if not kept:
            continue
        place.extend([len(series)] * len(kept))
        series.append(labels)
        ts_us.extend(at_us for at_us, _ in kept)
        values.extend(value for _, value in kept)
        if len(values) >= BATCH_ROWS:
            yield _batch(series, place, ts_us, values)
            series, ts_us, values, place = [], [], [], []
    if values:
        yield _batch(series, place, ts_us, values)


def _batch(
    series: list[dict[str, str]], place: list[int], ts_us: list[int], values: list[float]
) -> pa.RecordBatch:
    rows = pa.array(place, pa.int32())
    plain = [sorted((name, text) for name, text in one.items() if name != NAME_LABEL) for one in series]
    ids = [series_id(one.get(NAME_LABEL, ""), labels) for one, labels in zip(series, plain, strict=True)]
    columns = {
        "ts": pa.array(ts_us, SAMPLES.field("ts").type),
        "metric": pa.array([one.get(NAME_LABEL, "") for one in series], pa.string()).take(rows),
        "labels": pa.array(plain, SAMPLES.field("labels").type).take(rows),
        "value": pa.array(values, pa.float64()),
        "instance": pa.array([one.get(INSTANCE, "") for one in series], pa.string()).take(rows),
        "instance_uid": pa.repeat(pa.scalar(""), len(values)),
        "embedded_ts": pa.nulls(len(values), SAMPLES.field("embedded_ts").type),
        "series": pa.array(ids, pa.int64()).take(rows),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in SAMPLES.names], schema=SAMPLES)


def _is_stale(value: float) -> bool:
    return bool(struct.unpack("<Q", struct.pack("<d", value))[0] == STALE_BITS)


def _queried(store: PrometheusServer, matchers: tuple[Matcher, ...], stretch: TimeRange) -> Iterator[Series]:
    width_ms = stretch.end_ms - stretch.start_ms
    query = f"{text_of(matchers)}[{width_ms}ms]"
    options = urllib.parse.urlencode({"query": query, "time": f"{(stretch.end_ms - 1) / 1_000:.3f}"})
    status, body = _ask(store, f"/api/v1/query?{options}", None)
    if status != 200:
        raise PrometheusError(f"{store.url}/api/v1/query: status {status}: {body[:200]!r}")
    try:
        data = bounded_json.decode(body, ANSWER_BYTES_MAX)["data"]
        if data["resultType"] != "matrix":
            raise PrometheusError(f"{store.url}/api/v1/query: a {data['resultType']} and no matrix")
        for one in data["result"]:
            points = one["values"]
            yield (
                one["metric"],
                [round(at_s * 1_000) for at_s, _ in points],
                [float(text) for _, text in points],
            )
    except (ValueError, KeyError, TypeError) as error:
        raise PrometheusError(f"{store.url}/api/v1/query: no answer of Prometheus: {error!r}") from None


def _ask(store: PrometheusServer, path: str, body: bytes | None) -> tuple[int, bytes]:
    url = urllib.parse.urlsplit(store.url)
    secure = url.scheme == "https"
    connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = connect(url.netloc, timeout=store.timeout_s)
    headers = dict(store.headers)
    if body is not None:
        headers |= {
            "Content-Type": "application/x-protobuf",
            "Content-Encoding": "snappy",
            "X-Prometheus-Remote-Read-Version": "0.1.0",
        }
    try:
        connection.request("GET" if body is None else "POST", url.path.rstrip("/") + path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise PrometheusError(f"{store.url}: {error_text(error)}") from error
    finally:
        connection.close()


def _message_types() -> dict[str, Any]:
    """Describe the few messages of remote read; field numbers are prompb's."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="slo_pipeline_read.proto", package="rw", syntax="proto3")
    layout: dict[str, list[tuple[str, int, int, str | None, bool]]] = {
        "Label": [("name", 1, kinds.TYPE_STRING, None, False), ("value", 2, kinds.TYPE_STRING, None, False)],
        "Sample": [
            ("value", 1, kinds.TYPE_DOUBLE, None, False),
            ("timestamp", 2, kinds.TYPE_INT64, None, False),
        ],
        "TimeSeries": [
            ("labels", 1, kinds.TYPE_MESSAGE, "Label", True),
            ("samples", 2, kinds.TYPE_MESSAGE, "Sample", True),
        ],
        "QueryResult": [("timeseries", 1, kinds.TYPE_MESSAGE, "TimeSeries", True)],
        "ReadResponse": [("results", 1, kinds.TYPE_MESSAGE, "QueryResult", True)],
        "LabelMatcher": [
            ("type", 1, kinds.TYPE_INT32, None, False),
            ("name", 2, kinds.TYPE_STRING, None, False),
            ("value", 3, kinds.TYPE_STRING, None, False),
        ],
        "Query": [
            ("start_timestamp_ms", 1, kinds.TYPE_INT64, None, False),
            ("end_timestamp_ms", 2, kinds.TYPE_INT64, None, False),
            ("matchers", 3, kinds.TYPE_MESSAGE, "LabelMatcher", True),
        ],
        "ReadRequest": [("queries", 1, kinds.TYPE_MESSAGE, "Query", True)],
    }  # fmt: skip
    for name, fields in layout.items():
        message = file.message_type.add(name=name)
        for field, number, kind, other, many in fields:
            label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
            message.field.add(
                name=field, number=number, type=kind, label=label, type_name=f".rw.{other}" if other else None
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"rw.{name}")) for name in layout
    }


_MESSAGES: Final = _message_types()


def _read_request(matchers: tuple[Matcher, ...], stretch: TimeRange) -> bytes:
    request = _MESSAGES["ReadRequest"]()
    # Remote read takes both ends as inside.
    query = request.queries.add(start_timestamp_ms=stretch.start_ms, end_timestamp_ms=stretch.end_ms - 1)
    for one in matchers:
        query.matchers.add(type=TYPES[one.op], name=one.name, value=one.value)
    return bytes(pa.Codec("snappy").compress(request.SerializeToString(), asbytes=True))


def read_response(body: bytes) -> Iterator[Series]:
    """Yield the series of an answer of remote read.

    Raises:
        PrometheusError: it cannot be decoded.
    """
    try:
        plain = pa.Codec("snappy").decompress(body, decompressed_size=_snappy_size(body), asbytes=True)
        answer = _MESSAGES["ReadResponse"].FromString(plain)
    except Exception as error:
        raise PrometheusError(f"the answer of remote read cannot be decoded: {error!r}") from None
    for result in answer.results:
        for series in result.timeseries:
            labels = {label.name: label.value for label in series.labels}
            samples = series.samples
            yield labels, [one.timestamp for one in samples], [one.value for one in samples]


def _snappy_size(body: bytes) -> int:
    """Return the decompressed size that a snappy block begins with, a little-endian varint of 32 bits."""
    size = 0
    for place, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if size > SNAPPY_RATIO_MAX * len(body):
                raise PrometheusError(
                    f"the answer of remote read has {len(body)} bytes and tells {size} bytes of content"
                )
            return size
    raise PrometheusError("the answer of remote read does not begin with its size")
