"""A long period computed twice, by data frames and by the single pass: do both make the same bytes?

    python tests/bench/same_month.py --days 30

`tests/spark` compares both on stories, on random rows and on a month of few rows. This takes days of one
canary's operations, as many as `bench_spark.py` has: 52 million for 30 days, of which the frames need minutes
and two gigabytes. Exit status: 1 if a page or a table differs, which is then named.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from slo_pipeline.jobs import gather
from slo_pipeline.jobs.gold import gold
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.profile import Profile
from slo_pipeline.jobs.report import write_tables
from slo_pipeline.jobs.single_pass import driver
from slo_pipeline.jobs.spark.session import session
from slo_pipeline.jobs.survey import surveyed
from slo_pipeline.objectives.file import load
from slo_pipeline.reports.page.document import render
from slo_pipeline.sources.segments import read_inputs
from testkit.generators.many_samples import write_operations

NOW_US = 1_798_761_600_000_000
"""2027-01-01, later than all rows."""
MASTER = "local[*]"
Tables = dict[str, list[dict[str, Any]]]


def by_frames(data: Path) -> tuple[Tables, Period]:
    """Return the gold tables and the period, computed by data frames."""
    objectives = load()
    inputs, over, found = surveyed(
        read_inputs(session(master=MASTER), data), NOW_US, objectives.timeWindow.days, data
    )
    return gather.collect(gold(inputs, over, objectives)) | found, over


def by_single_pass(data: Path) -> tuple[Tables, Period]:
    """Return the gold tables and the period, computed by arrays."""
    return driver.period_tables(data, load(), NOW_US, MASTER, Profile())


def files(tables: Tables, over: Period, directory: Path) -> dict[str, bytes]:
    """Return the page and the tables of a report by their names."""
    write_tables(tables, directory)
    page = render(gather.report(tables, over, load(), "Same"))
    return {"index.html": page.encode()} | {path.name: path.read_bytes() for path in directory.iterdir()}


def main() -> int:
    """Compare and print one line for each file."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--days", type=int, default=1, metavar="N")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        rows = sum(write_operations(data, day) for day in range(args.days))
        made = {}
        for name, compute in (("frames", by_frames), ("single pass", by_single_pass)):
            begin_s = time.monotonic()
            made[name] = files(*compute(data), Path(scratch) / name)
            print(f"{rows:,} rows by {name}: {time.monotonic() - begin_s:.1f} s", flush=True)
    slow, fast = made.values()
    differing = sorted(name for name in slow.keys() | fast.keys() if slow.get(name) != fast.get(name))
    print(f"differing: {', '.join(differing)}" if differing else f"{len(slow)} files are the same")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
