"""What a day, ten days, a month of samples cost, start-up included, beside DuckDB on the same files and cores.

    python tests/bench/bench_spark.py --days 1 [--days 10 --days 30]

Every contestant is a process of its own that reads the segments, sums pair increments in windows of 5 minutes, and must come to
the same total. Prometheus has the same samples as blocks of its own, whose making is a row of its own; it is started, asked for
the sum of `increase` over the same windows, and stopped, and comes near the total, as it extrapolates. `daily` then computes all days once, and once more after one day was added: that second run is what a day costs.
"""

import argparse
import csv
import datetime as dt
import io
import os
import sys
import tempfile
from pathlib import Path

from testkit.many_samples import FIRST_DAY, METRIC, S_PER_DAY, write_day, write_text
from testkit.measured import Cost, measure
from testkit.prometheus import blocks_command

WINDOW = "5m"
TIMEOUT_S = 1_800.0
DUCKDB = """
import sys
from pathlib import Path
from testkit.second_opinion import increases
print(sum(increases(Path(sys.argv[1]), sys.argv[2], 300_000_000).values()))
"""
PROMETHEUS = """
import sys
from pathlib import Path
from testkit.prometheus import asked, serving_blocks
data, begin_s, end_s, metric = Path(sys.argv[1]), *sys.argv[2:]
with serving_blocks(data, data.parent) as address:
    query = f"sum(increase({metric}[5m]))"
    found = asked(address, "/api/v1/query_range", query=query, start=begin_s, end=end_s, step="5m")
print(sum(float(value) for one in found["result"] for _, value in one["values"]))
"""
PROMETHEUS_DAYS_MAX = 10
"""promtool holds all samples of a text in memory."""
NEAR = 0.02


def main() -> int:
    """Print one Markdown row a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, action="append", metavar="N", help="repeatable; default 1")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load average {load:.1f} at the start\n")
    print("| days | samples | what | wall s | peak MiB | samples a second | µs a sample |")
    print("|---|---|---|---|---|---|---|")
    for days in args.days or [1]:
        with tempfile.TemporaryDirectory() as scratch:
            _bench(days, Path(scratch))
    return 0


def _bench(days: int, scratch: Path) -> None:
    data = scratch / "data"
    samples = sum(write_day(data, day) for day in range(days))
    program = str(Path(sys.executable).parent / "slo-pipeline")
    totals = []
    for master in ("local[1]", "local[2]"):
        options = ["--window", WINDOW, "--input", str(data), "--master", master, "--without-promql"]
        cost = measure([program, "increase", METRIC, *options], timeout_s=TIMEOUT_S)
        totals.append(sum(float(row["increase"]) for row in csv.DictReader(io.StringIO(cost.output))))
        _print(days, samples, f"Spark {master}", cost)
    cost = measure([sys.executable, "-c", DUCKDB, str(data), METRIC], timeout_s=TIMEOUT_S)
    totals.append(float(cost.output))
    _print(days, samples, "DuckDB", cost)
    if len({round(total) for total in totals}) != 1:
        raise SystemExit(f"the contestants disagree: {totals}")
    if days <= PROMETHEUS_DAYS_MAX:
        _bench_prometheus(days, samples, totals[0], scratch)
    daily = [
        program,
        "daily",
        "--input",
        str(data),
        "--tables",
        str(scratch / "tables"),
        "--now",
        "2027-01-01T00:00:00Z",
    ]
    _print(days, samples, "daily, all days", measure(daily, timeout_s=TIMEOUT_S))
    added = write_day(data, days)
    _print(days, added, "daily, one day more", measure(daily, timeout_s=TIMEOUT_S))


def _bench_prometheus(days: int, samples: int, total: float, scratch: Path) -> None:
    text, data = scratch / "history.om", scratch / "tsdb"
    write_text(text, days)
    _print(
        days,
        samples,
        "Prometheus, making its blocks",
        measure(blocks_command(text, data), timeout_s=TIMEOUT_S),
    )
    text.unlink()
    begin_s = (FIRST_DAY - dt.date(1970, 1, 1)).days * S_PER_DAY
    limits = [str(begin_s + 300), str(begin_s + days * S_PER_DAY)]
    command = [sys.executable, "-c", PROMETHEUS, str(data), *limits, METRIC]
    cost = measure(command, timeout_s=TIMEOUT_S)
    if abs(float(cost.output) / total - 1) > NEAR:
        raise SystemExit(f"Prometheus says {cost.output}, the others {total}")
    _print(days, samples, "Prometheus", cost)


def _print(days: int, samples: int, what: str, cost: Cost) -> None:
    rate, each = samples / cost.wall_s, cost.wall_s / samples * 1e6
    row = f"| {days} | {samples:,} | {what} | {cost.wall_s:.1f} | {cost.peak_bytes / 2**20:,.0f} | {rate:,.0f} | {each:.2f} |"
    print(row, flush=True)


if __name__ == "__main__":
    sys.exit(main())
