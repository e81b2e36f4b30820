"""Single rows of segments with sensible defaults, for tests of one rule at a time.

Times are milliseconds after `BASE_US`, so that a test reads as a little story.
"""

from pathlib import Path
from typing import Any, Final

from slo_pipeline.sources.segments import Inputs, read_inputs
from testkit.generators.synthetic import EPOCH_2026_US, write_rows

BASE_US: Final = EPOCH_2026_US
Row = dict[str, Any]


def us(at_ms: float) -> int:
    """Return the UTC microsecond of an offset."""
    return BASE_US + round(at_ms * 1_000)


def send(seq: int, at_ms: float, result: str = "ok", took_ms: float | None = 2, **changes: Any) -> Row:
    """Return a send intended at `at_ms`; `took_ms` None means that no answer came."""
    return {
        "op": "send",
        "group": "orders",
        "seq": seq,
        "intended_ts": us(at_ms),
        "start_ts": us(at_ms),
        "end_ts": None if took_ms is None else us(at_ms + took_ms),
        "result": result,
        "broker_addr": "127.0.0.1:10911",
        "queue_id": 0,
        "queue_offset": seq,
        "remark": None,
        "clock_id": "canary/1",
    } | changes


def read(seq: int, at_ms: float, result: str = "ok", **changes: Any) -> Row:
    """Return a read of a message."""
    return send(seq, at_ms, result, **changes) | {"op": "read"}


def event(
    kind: str, at_ms: float, *, epoch: int | None = None, broker: int | None = None, **changes: Any
) -> Row:
    """Return an event of group `orders`; `attrs` and `source` are among the changes."""
    source = str(changes.get("source", "controller"))
    ts_ns = us(at_ms) * 1_000
    return {
        "sequence": 1,
        "event_id": f"{source}/{kind}/{epoch}/{broker}/{ts_ns}",
        "ts": ts_ns // 1_000,
        "ts_ns": ts_ns,
        "monotonic_ns": 0,
        "clock_id": f"{source}/1",
        "source": source,
        "kind": kind,
        "namespace": "",
        "cluster": "main",
        "group": "orders",
        "broker_id": broker,
        "epoch": epoch,
        "term": 1,
        "index": 1,
        "correlation_id": None,
        "attrs": {},
    } | changes


def elected(
    at_ms: float, epoch: int, old: int | None, new: int, cause: str = "ConnectionClosed", **attrs: str
) -> Row:
    """Return a MasterElected of brokers 1 to 3."""
    told = {
        "cause": cause,
        "new_master_id": str(new),
        "old_epoch": str(epoch - 1),
        "new_epoch": str(epoch),
        "new_master_address": f"10.0.0.{new}:10911",
        "sync_state_set_before": "1,2,3",
        "sync_state_set_after": str(new),
        "proposed_ns": str(us(at_ms) * 1_000),
    }
    if old is not None:
        told |= {"old_master_id": str(old), "old_master_address": f"10.0.0.{old}:10911"}
    return event("MasterElected", at_ms, epoch=epoch, broker=new, attrs=told | attrs)


def sample(at_s: float, value: float, metric: str = "x_total", **changes: Any) -> Row:
    """Return a sample of one series of one instance."""
    return {
        "ts": us(at_s * 1_000),
        "metric": metric,
        "labels": {},
        "value": float(value),
        "instance": "a",
        "instance_uid": "a/1",
        "embedded_ts": None,
    } | changes


def inputs(spark: Any, directory: Path, **rows: list[Row]) -> Inputs:
    """Write rows as segments and read them as a job does; keywords are kinds of segments."""
    for kind, found in rows.items():
        write_rows(directory, kind, found)
    return read_inputs(spark, directory)
