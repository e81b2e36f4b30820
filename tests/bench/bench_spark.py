"""The cost of a day, ten days and a month of samples in Spark, DuckDB and Prometheus, and of reports.

    python tests/bench/bench_spark.py --days 1 [--days 10 --days 30]

Every contestant is a process of its own with start-up included. All sum pair increments of the same samples
in windows of 5 minutes, and must come to the same total; Prometheus comes near it, as it extrapolates.
`daily` computes all days once, and once more after a day was added: that second run is what a day costs.
`report` is made of as many days of one canary's operations: from segments, with one and two executors, and
from what `daily --extracts-only` took out of them. CPU time and memory are those of all processes of a
contestant; executors are JVMs of their own.

Each measurement is appended to RESULTS as a line of JSON, with the commit and the load average. A measurement
that is there for this commit is not repeated, so that a bench that was stopped goes on where it was. The data
of one size is on the disk at a time; the bench refuses to begin with less than BYTES_A_DAY free for each day.

At the end: one table. Exit status: 1 where contestants disagree, or a bound of LIMITS is broken.
"""

import argparse
import csv
import datetime as dt
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

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
BYTES_A_DAY: Final = 100 * 2**20
"""Of segments, of tables and of Prometheus' blocks together, about twice what they take."""
PROGRAM: Final = str(Path(sys.executable).parent / "slo-pipeline")
LIMITS: Final = {
    ("report", 1): 16.0,
    ("report", 30): 100.0,
    ("report of extracts", 30): 60.0,
    ("daily, one day more", 30): 14.0,
}
"""Seconds of wall time on a quiet machine, by contestant and days."""
PEAK_MAX_MIB: Final = 1_229
"""Of `report`, `daily` and `increase` on this machine, workers included."""
_PEAK_OF: Final = re.compile(r"report$|report of|daily|increase, local\[")
_STEP: Final = re.compile(r"^(times|operations|samples) +(\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Measurement:
    """One line of the results.

    Attributes:
        commit: of the code.
        days, what, rows: the size of the input, the contestant, and the number of rows.
        wall_s, cpu_s, peak_mib: of the whole command.
        read_s: wall time of the steps that read rows, without the start; 0.0 where it is not told.
        total: what contestants agree on; 0.0 for reports.
        load: load average before it.
    """

    commit: str
    days: int
    what: str
    rows: int
    wall_s: float
    cpu_s: float
    peak_mib: float
    read_s: float
    total: float
    load: float


class Results:
    """The measurements so far; the file is appended to after each."""

    def __init__(self, path: Path) -> None:
        """Read what an earlier run of this commit measured."""
        self._path = path
        command = ["git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
        self.commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines() if path.exists() else []
        found = [Measurement(**json.loads(line)) for line in lines]
        self.rows = [one for one in found if one.commit == self.commit]

    def has(self, days: int, *what: str) -> bool:
        """Tell whether all of some contestants were measured."""
        return {*what} <= {one.what for one in self.rows if one.days == days}

    def run(self, days: int, what: str, rows: int, command: list[str]) -> float:
        """Measure a command and keep the result; return the total that it printed."""
        load = os.getloadavg()[0]
        try:
            cost = measure(command, timeout_s=TIMEOUT_S)
        except CommandFailedError as error:
            # A month may not fit the memory: that is a result too.
            print(f"{days} days, {what}: failed: {str(error)[-200:]!r}", flush=True)
            return 0.0
        return self.keep(days, what, rows, cost, load)

    def keep(self, days: int, what: str, rows: int, cost: CommandCost, load: float) -> float:
        """Keep the cost of a command; return the total that it printed."""
        read_s = sum(float(found[2]) for found in _STEP.finditer(cost.errors))
        total = _total(cost.output)
        peak_mib = cost.peak_bytes / 2**20
        made = Measurement(
            self.commit, days, what, rows, cost.wall_s, cost.cpu_s, peak_mib, read_s, total, load
        )
        self.rows.append(made)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(made)) + "\n")
        print(
            f"{days} days, {what}: {cost.wall_s:.1f} s, CPU {cost.cpu_s:.1f} s, load {load:.1f}", flush=True
        )
        return total


def _total(output: str) -> float:
    """Return what a contestant's output adds up to; 0.0 if it does not print sums."""
    if output.startswith("window_start"):
        return sum(float(row["increase"]) for row in csv.DictReader(io.StringIO(output)))
    try:
        return float(output)
    except ValueError:
        return 0.0


def main() -> int:
    """Take the measurements that are missing and print the table; return the exit status."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--days", type=int, action="append", metavar="N", help="repeatable; default 1")
    parser.add_argument("--results", type=Path, default=Path("out/bench-spark.jsonl"), metavar="FILE")
    parser.add_argument("--only", choices=("samples", "reports"), help="one half; both when left out")
    args = parser.parse_args()
    halves = {"samples": _bench_samples, "reports": _bench_report}
    sizes, results = sorted(args.days or [1]), Results(args.results)
    print(f"{os.cpu_count()} cores, commit {results.commit}, results in {args.results}", flush=True)
    for days in sizes:
        for bench in [bench for half, bench in halves.items() if args.only in (None, half)]:
            with tempfile.TemporaryDirectory() as scratch:
                _check_disk(Path(scratch), days)
                bench(days, Path(scratch), results)
    print()
    broken = list(_broken(results, sizes))
    _print_table(results, sizes)
    _print_executors(results, sizes)
    if args.only is None:
        _print_sizes()
    print("\n".join(broken))
    return 1 if broken else 0


def _check_disk(scratch: Path, days: int) -> None:
    free = shutil.disk_usage(scratch).free
    if free < days * BYTES_A_DAY:
        raise SystemExit(f"{scratch}: {free:,} bytes free, {days} days need {days * BYTES_A_DAY:,}")


def _data(scratch: Path, days: int, write: Callable[[Path, int], int]) -> Callable[[], tuple[Path, int]]:
    """Return a function that makes the input at its first call: its directory, and how many rows it has."""
    made: list[int] = []

    def data() -> tuple[Path, int]:
        if not made:
            made.append(sum(write(scratch / "data", day) for day in range(days)))
        return scratch / "data", made[0]

    return data


def _bench_samples(days: int, scratch: Path, results: Results) -> None:
    data = _data(scratch, days, write_day)
    spark_home = _own_spark_home(scratch / "spark")
    for master in ("local[1]", "local[2]", "local-cluster[2,1,1024]"):
        what = f"increase, {master}"
        if not results.has(days, what):
            directory, rows = data()
            command = [PROGRAM, "increase", METRIC, "--window", WINDOW, "--input", str(directory)]
            command += ["--master", master, "--without-promql", "--output=csv", "--profile"]
            results.run(days, what, rows, [*spark_home, *command])
    if not results.has(days, "DuckDB"):
        directory, rows = data()
        results.run(days, "DuckDB", rows, [sys.executable, "-c", DUCKDB, str(directory), METRIC])
    if not results.has(days, "Prometheus"):
        _bench_prometheus(days, data()[1], scratch, results)
    if not results.has(days, "daily, all days", "daily, one day more"):
        directory, rows = data()
        daily = [PROGRAM, "daily", "--input", str(directory), "--tables", str(scratch / "tables")]
        daily += ["--now", "2027-01-01"]
        results.run(days, "daily, all days", rows, daily)
        results.run(days, "daily, one day more", write_day(directory, days), daily)


def _bench_report(days: int, scratch: Path, results: Results) -> None:
    data, tables = _data(scratch, days, write_operations), ["--tables", str(scratch / "tables")]
    spark_home = _own_spark_home(scratch / "spark")
    when, one, two = ["--now", "2027-01-01"], "local-cluster[1,1,1024]", "local-cluster[2,1,1024]"
    runs = {"report": "local[2]", "report, one executor": one, "report, two executors": two}
    for what, master in runs.items():
        if not results.has(days, what):
            directory, rows = data()
            command = [PROGRAM, "report", "--input", str(directory), "--master", master, "--profile"]
            command += [*when, "--out", str(scratch / "out")]
            results.run(days, what, rows, [*spark_home, *command])
    if not results.has(days, "daily --extracts-only", "report of extracts"):
        directory, rows = data()
        daily = [PROGRAM, "daily", "--input", str(directory), *tables, *when, "--extracts-only"]
        results.run(days, "daily --extracts-only", rows, daily)
        report = [PROGRAM, "report", "--input", str(directory), *tables, *when, "--out", str(scratch / "out")]
        results.run(days, "report of extracts", rows, [*report, "--profile"])


def _own_spark_home(directory: Path) -> list[str]:
    """Return the first words of a command whose executors work in a scratch directory.

    They do not see the directory of the installed package.
    """
    directory.mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (directory / path.name).symlink_to(path)
    return ["env", f"SPARK_HOME={directory}"]


def _bench_prometheus(days: int, samples: int, scratch: Path, results: Results) -> None:
    """Measure Prometheus: a day's text at a time, as promtool holds it in memory, then the query."""
    text, data, load = scratch / "history.om", scratch / "tsdb", os.getloadavg()[0]
    costs = []
    for day in range(days):
        write_text(text, day)
        costs.append(measure(blocks_command(text, data), timeout_s=TIMEOUT_S))
    text.unlink()
    wall_s, cpu_s = sum(cost.wall_s for cost in costs), sum(cost.cpu_s for cost in costs)
    making = CommandCost(wall_s, cpu_s, max(cost.peak_bytes for cost in costs), "")
    results.keep(days, "Prometheus, making its blocks", samples, making, load)
    begin_s = (FIRST_DAY - dt.date(1970, 1, 1)).days * S_PER_DAY
    limits = [str(begin_s + 300), str(begin_s + days * S_PER_DAY)]
    command = [sys.executable, "-c", PROMETHEUS, str(data), *limits, METRIC]
    results.run(days, "Prometheus", samples, command)
    shutil.rmtree(data)


def _broken(results: Results, sizes: list[int]) -> Iterator[str]:
    """Yield what contestants disagree on, and bounds that are broken."""
    for days in sizes:
        of = {one.what: one for one in results.rows if one.days == days}
        totals = {round(of[what].total) for what in of if what.startswith("increase") or what == "DuckDB"}
        if len(totals) > 1:
            yield f"{days} days: the contestants disagree: {sorted(totals)}"
        if "Prometheus" in of and abs(of["Prometheus"].total / max(totals, default=1) - 1) > NEAR:
            yield f"{days} days: Prometheus says {of['Prometheus'].total}, the others {sorted(totals)}"
        for what, one in of.items():
            if one.wall_s > LIMITS.get((what, days), TIMEOUT_S):
                yield f"{days} days, {what}: {one.wall_s:.1f} s, more than {LIMITS[what, days]:.0f} s"
            if _PEAK_OF.match(what) and one.peak_mib > PEAK_MAX_MIB:
                yield f"{days} days, {what}: {one.peak_mib:,.0f} MiB, more than {PEAK_MAX_MIB:,}"


def _print_table(results: Results, sizes: list[int]) -> None:
    """Print one row for each contestant; columns of several sizes have a value for each."""
    every = ", ".join(map(str, sizes))
    print(f"| what | wall s: {every} days | CPU s | reading s | peak MiB | CPU µs a further row | load |")
    print("|---|---|---|---|---|---|---|")
    for what in dict.fromkeys(one.what for one in results.rows):
        own = sorted((one for one in results.rows if one.what == what), key=lambda one: one.days)
        own = [one for one in own if one.days in sizes]
        cells = [
            ", ".join(f"{one.wall_s:.1f}" for one in own),
            ", ".join(f"{one.cpu_s:.1f}" for one in own),
            ", ".join(f"{one.read_s:.1f}" if one.read_s else "-" for one in own),
            ", ".join(f"{one.peak_mib:,.0f}" for one in own),
            _further(own),
            ", ".join(f"{one.load:.0f}" for one in own),
        ]
        print(f"| {what} | {' | '.join(cells)} |")


def _print_executors(results: Results, sizes: list[int]) -> None:
    """Print how much faster two executors read the further rows of a report than one.

    Further than those of the smallest size: the first tasks wait for executors and their workers to start.
    """
    took_s = []
    for what in ("report, one executor", "report, two executors"):
        read_s = {one.days: one.read_s for one in results.rows if one.what == what}
        took_s.append(read_s.get(sizes[-1], 0.0) - read_s.get(sizes[0], 0.0))
    if min(took_s) > 0:
        span, ratio = f"{sizes[0]} to {sizes[-1]} days", took_s[0] / took_s[1]
        print(f"\nTwo executors read {span} {ratio:.2f} times as fast as one.")


def _further(own: list[Measurement]) -> str:
    """Return the CPU time of a further row from the smallest to the largest size, microseconds."""
    if len(own) < 2 or own[-1].rows <= own[0].rows:
        return "-"
    return f"{(own[-1].cpu_s - own[0].cpu_s) / (own[-1].rows - own[0].rows) * 1e6:.2f}"


def _print_sizes() -> None:
    print("\n| on disk | |\n|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        for what, value in sizes_on_disk(Path(scratch)).items():
            print(f"| {what} | {value:,.2f} |")


if __name__ == "__main__":
    sys.exit(main())
