"""A dead canary leaves days without a send: the report names them, and lists every group of any row."""

from pathlib import Path

from pyspark.sql import SparkSession

from slo_pipeline.jobs import gather
from slo_pipeline.jobs.gold import gold
from slo_pipeline.jobs.survey import surveyed
from slo_pipeline.objectives.file import load
from slo_pipeline.reports.files.folder import summary
from slo_pipeline.reports.page.document import render
from slo_pipeline.reports.page.states import verdict
from testkit.generators.segment_rows import event, inputs, send, us

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def test_the_days_of_a_dead_canary_are_named_and_every_known_group_is_listed(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = inputs(
        spark,
        tmp_path,
        probe_ops=[
            *[send(seq, seq * 1_000, group="orders") for seq in range(120)],
            *[send(seq, seq * HOUR_MS / 2, group="payments") for seq in range(4 * 48 + 1)],
            send(1, 3 * DAY_MS, group="late"),
        ],
        events=[event("MasterElected", HOUR_MS, group="stock")],
    )
    kept, over, tables = surveyed(found, us(4 * DAY_MS + 1_000), 30, tmp_path)
    made = gather.report(gather.collect(gold(kept, over, load())) | tables, over, load(), "Dead")
    assert [group.name for group in made.groups] == ["late", "orders", "payments", "stock"]
    assert verdict(made) == ("Unknown: 0 s of 30 d measured in stock", False)
    assert summary(made)["silent"] == [
        "stock: no send was measured from 2026-11-20 12:00:00 to 2026-11-24 12:00:01 UTC; "
        "0 s of 30 d measured",
        "late: no send was measured from 2026-11-20 12:00:00 to 2026-11-23 12:00:00 UTC and 1 other time; "
        "1 s of 30 d measured",
        "orders: no send was measured from 2026-11-20 12:30:00 to 2026-11-24 12:00:01 UTC; "
        "2 min of 30 d measured",
    ]
    page = render(made)
    missing = page[page.index('id="missing"') :]
    assert all(f">{group.name}</td>" in missing for group in made.groups)
