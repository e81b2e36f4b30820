"""Days of counter samples, made column by column: enough for a benchmark, and known to the last one.

Each of SERIES counters is scraped every 15 s and wraps to 0 now and then, which is a reset. Rows are
ordered as the collector orders them, one segment a quarter of a day. `write_text` says the same of
one day in OpenMetrics text. `write_operations` makes a day of one canary that sends ten times per
second and reads everything back.
"""

import datetime as dt
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slo_pipeline.schemas.segments import PROBE_OPS, SAMPLES
from slo_pipeline.schemas.series_ids import series_id

METRIC: Final = "bench_events_total"
SERIES: Final = 200
INTERVAL_S: Final = 15
SEGMENTS_A_DAY: Final = 4
SENDS_A_DAY: Final = 864_000
WRAP: Final = 50_000
FIRST_DAY: Final = dt.date(2026, 10, 1)
US_PER_S: Final = 1_000_000
S_PER_DAY: Final = 86_400
_POINTS: Final = S_PER_DAY // INTERVAL_S // SEGMENTS_A_DAY


def _call(function: str, *arguments: object) -> Any:
    return pc.call_function(function, list(arguments))


def write_day(directory: Path, number: int) -> int:
    """Write one day of samples; return how many there are.

    Args:
        directory: a data directory.
        number: days after FIRST_DAY. Counters begin each day where a function of the day's number says.
    """
    day = FIRST_DAY + dt.timedelta(days=number)
    folder = directory / "samples" / f"day={day.isoformat()}"
    folder.mkdir(parents=True, exist_ok=True)
    for segment, from_us in enumerate(_segment_starts_us(number)):
        tables = [_series(one, from_us, _POINTS) for one in range(SERIES)]
        pq.write_table(pa.concat_tables(tables), folder / f"bench-{segment}.parquet", compression="zstd")
    return SERIES * _POINTS * SEGMENTS_A_DAY


def write_operations(directory: Path, number: int) -> int:
    """Write one day of a canary's operations, one segment; return how many there are.

    Args:
        directory: a data directory.
        number: days after FIRST_DAY. Every 400,000th send fails.
    """
    day = FIRST_DAY + dt.timedelta(days=number)
    folder = directory / "probe_ops" / f"day={day.isoformat()}"
    folder.mkdir(parents=True, exist_ok=True)
    begin = (day - dt.date(1970, 1, 1)).days * SENDS_A_DAY
    seq = pa.array(range(begin, begin + SENDS_A_DAY), pa.int64())
    intended_us = _call("multiply", seq, pa.scalar(S_PER_DAY * US_PER_S // SENDS_A_DAY))
    # From half a millisecond to five, and a few of a quarter of a second.
    spread = _call("bit_wise_and", _call("multiply", seq, pa.scalar(2_654_435_761)), pa.scalar(4_095))
    slow = _call("equal", _call("bit_wise_and", seq, pa.scalar(8_191)), pa.scalar(0))
    took_us = _call("add", spread, _call("if_else", slow, pa.scalar(250_000), pa.scalar(500)))
    stored_us = _call("add", intended_us, took_us)
    failed = _call("equal", _rest(seq, 400_000), pa.scalar(0))
    result = _call("if_else", failed, pa.scalar("timeout"), pa.scalar("ok"))
    sends = _operations("send", seq, intended_us, stored_us, result)
    found_us = _call("add", stored_us, pa.scalar(20_000))
    reads = _operations("read", seq, stored_us, found_us, result).filter(_call("invert", failed))
    rows = pa.concat_tables([sends, reads])
    pq.write_table(rows, folder / "bench.parquet", compression="zstd")
    return int(rows.num_rows)


def _rest(numbers: pa.Array, by: int) -> pa.Array:
    whole = _call("multiply", _call("divide", numbers, pa.scalar(by)), pa.scalar(by))
    return _call("subtract", numbers, whole)


def _operations(op: str, seq: pa.Array, begin_us: pa.Array, end_us: pa.Array, result: pa.Array) -> pa.Table:
    count = len(seq)
    time = PROBE_OPS.field("intended_ts").type
    return pa.table(
        [
            pa.repeat(pa.scalar(op), count),
            pa.repeat(pa.scalar("orders"), count),
            seq,
            begin_us.cast(time),
            begin_us.cast(time),
            end_us.cast(time),
            result,
            pa.repeat(pa.scalar("10.96.12.7:10911"), count),
            _rest(seq, 4).cast(pa.int32()),
            _call("divide", seq, pa.scalar(4)),
            pa.nulls(count, pa.string()),
            pa.repeat(pa.scalar("canary/1"), count),
        ],
        schema=PROBE_OPS,
    )


def write_text(path: Path, day: int) -> None:
    """Write the same samples of one day as OpenMetrics text, one series after the other."""
    with path.open("w") as file:
        file.write(f"# TYPE {METRIC.removesuffix('_total')} counter\n")
        for number in range(SERIES):
            name = f'{METRIC}{{group="g{number % 10}",topic="t{number}",instance="broker-{number % 20}"}}'
            for from_us in _segment_starts_us(day):
                rows = _series(number, from_us, _POINTS)
                times_us = rows["ts"].cast(pa.int64()).to_pylist()
                pairs = zip(rows["value"].to_pylist(), times_us, strict=True)
                file.writelines(f"{name} {value:.0f} {ts_us / US_PER_S:.3f}\n" for value, ts_us in pairs)
        file.write("# EOF\n")


def _segment_starts_us(number: int) -> list[int]:
    begin_us = ((FIRST_DAY - dt.date(1970, 1, 1)).days + number) * S_PER_DAY * US_PER_S
    return [begin_us + segment * _POINTS * INTERVAL_S * US_PER_S for segment in range(SEGMENTS_A_DAY)]


def _series(number: int, from_us: int, points: int) -> pa.Table:
    places = pa.array(range(points), pa.int64())
    ts_us = _call("add", _call("multiply", places, pa.scalar(INTERVAL_S * US_PER_S)), pa.scalar(from_us))
    # A pace of its own for each series, a little unsteady, wrapping to 0 (which is a reset) at its own times.
    seconds = _call("divide", ts_us, pa.scalar(US_PER_S))
    steady = _call("multiply", _call("divide", seconds, pa.scalar(INTERVAL_S)), pa.scalar(7 + number % 13))
    value = _call("add", steady, _call("bit_wise_and", seconds, pa.scalar(3)))
    wrapped = _call(
        "subtract", value, _call("multiply", _call("divide", value, pa.scalar(WRAP)), pa.scalar(WRAP))
    )
    labels = [("group", f"g{number % 10}"), ("topic", f"t{number}")]
    shift_us = number * 37_000
    return pa.table(
        [
            _call("add", ts_us, pa.scalar(shift_us)).cast(SAMPLES.field("ts").type),
            pa.repeat(pa.scalar(METRIC), points),
            pa.array([labels], SAMPLES.field("labels").type).take(pa.array([0] * points)),
            wrapped.cast(pa.float64()),
            pa.repeat(pa.scalar(f"broker-{number % 20}"), points),
            pa.repeat(pa.scalar(""), points),
            pa.nulls(points, SAMPLES.field("embedded_ts").type),
            pa.repeat(pa.scalar(series_id(METRIC, labels), pa.int64()), points),
        ],
        schema=SAMPLES,
    )  # fmt: skip
