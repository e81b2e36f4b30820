"""The cost of a day, ten days and a month of samples in Spark, DuckDB and Prometheus.

All get the same samples and cores. Start-up is included.

    python tests/bench/bench_spark.py --days 1 [--days 10 --days 30]

Every contestant is a process of its own that reads the segments, sums pair increments in windows of 5
minutes, and must come to the same total; memory is the most that all processes of its session held at once,
so that executors, which are JVMs of their own, count. Prometheus has the same samples as blocks of its own, a
day's at a time because promtool holds a text in memory; their making is a row of its own. It is started,
asked for the sum of `increase` over the same windows, and stopped, and comes near the total, as it
extrapolates. `daily` then computes all days once, and once more after one day was added: that second run is
what a day costs. `report` is made of as many days of one canary's operations, from segments and from what
`daily --extracts-only` took out of them.

At the end: what a further sample costs from size to size, which is the cost without the start, and what
samples take on disk. Exit status: 1 where contestants disagree, or a further sample costs a Spark more than
FLAT_WITHIN more than the previous samples.
"""

import argparse
import csv
import datetime as dt
import io
import itertools
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pyspark

from project_tools.row_sizes import sizes_on_disk
from testkit.generators.many_samples import (
    FIRST_DAY,
    METRIC,
    S_PER_DAY,
    write_day,
    write_operations,
    write_text,
)
from testkit.processes.measured import CommandCost, CommandFailedError, measure
from testkit.processes.prometheus import blocks_command

WINDOW = "5m"
TIMEOUT_S = 1_800.0
DUCKDB = """
import sys
from pathlib import Path
from testkit.generators.second_opinion import increases
print(sum(increases(Path(sys.argv[1]), sys.argv[2], 300_000_000).values()))
"""
PROMETHEUS = """
import sys
from pathlib import Path
from testkit.processes.prometheus import asked, serving_blocks
data, begin_s, end_s, metric = Path(sys.argv[1]), *sys.argv[2:]
with serving_blocks(data, data.parent) as address:
    query = f"sum(increase({metric}[5m]))"
    found = asked(address, "/api/v1/query_range", query=query, start=begin_s, end=end_s, step="5m")
print(sum(float(value) for one in found["result"] for _, value in one["values"]))
"""
NEAR = 0.02
FLAT_WITHIN = 0.2
LOCAL = ("local[1]", "local[2]")
EXECUTORS = "local-cluster[2,1,1024]"
"""Two executors of one core and 1,024 MiB each, processes of their own on this machine, as
Spark's own tests start them."""


class BenchRow(NamedTuple):
    """One row."""

    days: int
    samples: int
    what: str
    cost: CommandCost


def main() -> int:
    """Print one Markdown row a run, then what follows from them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, action="append", metavar="N", help="repeatable; default 1")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load average {load:.1f} at the start\n")
    print("| days | samples | what | wall s | peak MiB | samples per second | µs a sample |")
    print("|---|---|---|---|---|---|---|")
    rows: list[BenchRow] = []
    for days in args.days or [1]:
        with tempfile.TemporaryDirectory() as scratch:
            _bench(days, Path(scratch), rows)
        with tempfile.TemporaryDirectory() as scratch:
            _bench_report(days, Path(scratch), rows)
    flat = _print_further(rows)
    _print_sizes()
    return 0 if flat else 1


def _bench(days: int, scratch: Path, rows: list[BenchRow]) -> None:
    data = scratch / "data"
    samples = sum(write_day(data, day) for day in range(days))
    program = str(Path(sys.executable).parent / "slo-pipeline")
    totals = {}
    for master in (*LOCAL, EXECUTORS):
        options = [
            "--window",
            WINDOW,
            "--input",
            str(data),
            "--master",
            master,
            "--without-promql",
            "--output=csv",
        ]
        command = [program, "increase", METRIC, *options]
        if master == EXECUTORS:
            command = [*_own_spark_home(scratch / "spark"), *command]
        cost = measure(command, timeout_s=TIMEOUT_S)
        totals[master] = sum(float(row["increase"]) for row in csv.DictReader(io.StringIO(cost.output)))
        _add(rows, BenchRow(days, samples, f"Spark {master}", cost))
    cost = measure([sys.executable, "-c", DUCKDB, str(data), METRIC], timeout_s=TIMEOUT_S)
    totals["DuckDB"] = float(cost.output)
    _add(rows, BenchRow(days, samples, "DuckDB", cost))
    if len({round(total) for total in totals.values()}) != 1:
        raise SystemExit(f"the contestants disagree: {totals}")
    _bench_prometheus(days, samples, totals["DuckDB"], scratch, rows)
    daily = [
        program,
        "daily",
        "--input",
        str(data),
        "--tables",
        str(scratch / "tables"),
        "--now",
        "2027-01-01",
    ]
    _add(rows, BenchRow(days, samples, "daily, all days", measure(daily, timeout_s=TIMEOUT_S)))
    added = write_day(data, days)
    _add(rows, BenchRow(days, added, "daily, one day more", measure(daily, timeout_s=TIMEOUT_S)))


def _bench_report(days: int, scratch: Path, rows: list[BenchRow]) -> None:
    data, tables = scratch / "data", ["--tables", str(scratch / "tables")]
    operations = sum(write_operations(data, day) for day in range(days))
    program = str(Path(sys.executable).parent / "slo-pipeline")
    daily = [program, "daily", "--input", str(data), *tables, "--now", "2027-01-01", "--extracts-only"]
    report = [program, "report", "--input", str(data), "--master", LOCAL[-1]]
    runs = {
        "report of operations": [*report, "--out", str(scratch / "segments")],
        "daily --extracts-only": daily,
        "report of their extracts": [*report, *tables, "--out", str(scratch / "extracts")],
    }
    for what, command in runs.items():
        try:
            _add(rows, BenchRow(days, operations, what, measure(command, timeout_s=TIMEOUT_S)))
        except CommandFailedError as error:
            # A month may not fit the memory that Spark takes when nothing is said: that is a result too.
            print(f"| {days} | {operations:,} | {what} | failed: {str(error)[-200:]!r} | | | |", flush=True)


def _own_spark_home(directory: Path) -> list[str]:
    """Return the first words of a command whose executors work in a scratch directory.

    They do not see the directory of the installed package.
    """
    if not directory.exists():
        directory.mkdir()
        for path in Path(pyspark.__file__).parent.iterdir():
            (directory / path.name).symlink_to(path)
    return ["env", f"SPARK_HOME={directory}"]


def _bench_prometheus(days: int, samples: int, total: float, scratch: Path, rows: list[BenchRow]) -> None:
    text, data = scratch / "history.om", scratch / "tsdb"
    costs = []
    for day in range(days):
        write_text(text, day)
        costs.append(measure(blocks_command(text, data), timeout_s=TIMEOUT_S))
    text.unlink()
    making = CommandCost(sum(cost.wall_s for cost in costs), max(cost.peak_bytes for cost in costs), "")
    _add(rows, BenchRow(days, samples, "Prometheus, making its blocks", making))
    begin_s = (FIRST_DAY - dt.date(1970, 1, 1)).days * S_PER_DAY
    limits = [str(begin_s + 300), str(begin_s + days * S_PER_DAY)]
    command = [sys.executable, "-c", PROMETHEUS, str(data), *limits, METRIC]
    cost = measure(command, timeout_s=TIMEOUT_S)
    if abs(float(cost.output) / total - 1) > NEAR:
        raise SystemExit(f"Prometheus says {cost.output}, the others {total}")
    _add(rows, BenchRow(days, samples, "Prometheus", cost))


def _add(rows: list[BenchRow], row: BenchRow) -> None:
    rows.append(row)
    rate, each = row.samples / row.cost.wall_s, row.cost.wall_s / row.samples * 1e6
    cells = [str(row.days), f"{row.samples:,}", row.what, f"{row.cost.wall_s:.1f}"]
    cells += [f"{row.cost.peak_bytes / 2**20:,.0f}", f"{rate:,.0f}", f"{each:.2f}"]
    print(f"| {' | '.join(cells)} |", flush=True)


def _print_further(rows: list[BenchRow]) -> bool:
    """Print what a further sample costs between two sizes, and return whether it stays flat for Spark."""
    print("\n| what | µs a sample, start included | µs a further sample | against the previous samples |")
    print("|---|---|---|---|")
    flat = True
    for what in dict.fromkeys(row.what for row in rows if row.what != "daily, one day more"):
        own = sorted((row for row in rows if row.what == what), key=lambda row: row.samples)
        whole = [f"{row.days} d: {row.cost.wall_s / row.samples * 1e6:.2f}" for row in own]
        further = further_us(own)
        ratios = [after / before for before, after in itertools.pairwise(further) if before > 0]
        cells = [", ".join(whole), ", ".join(f"{one:.2f}" for one in further) or "-"]
        print(f"| {what} | {' | '.join(cells)} | {', '.join(f'{one:.2f}' for one in ratios) or '-'} |")
        flat &= not what.startswith("Spark") or all(ratio <= 1 + FLAT_WITHIN for ratio in ratios)
    print(
        f"\nA further sample costs Spark at most {FLAT_WITHIN:.0%} more than the previous samples: "
        f"{'yes' if flat else 'NO'}"
    )
    return flat


def further_us(own: list[BenchRow]) -> list[float]:
    """Return what a sample more cost between each size and the next, microseconds."""
    pairs = itertools.pairwise(own)
    return [
        (b.cost.wall_s - a.cost.wall_s) / (b.samples - a.samples) * 1e6
        for a, b in pairs
        if b.samples > a.samples
    ]


def _print_sizes() -> None:
    print("\n| on disk | |\n|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for what, value in sizes_on_disk(Path(scratch)).items():
            print(f"| {what} | {value:,.2f} |")


if __name__ == "__main__":
    sys.exit(main())
