"""A stretch of the latency plot that several windows divide is added up to what one window says of it."""

from pathlib import Path
from typing import Any

import pytest

from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.single_pass import operations, plan
from slo_pipeline.jobs.single_pass.operations import OperationsLook
from testkit.generators.segment_rows import send, us
from testkit.generators.synthetic import write_rows

OVER = Period(us(0), us(3_600_000))


def plotted(directory: Path, windows: int) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the rows of the latency plot and all latencies, read in so many windows."""
    groups = plan.row_groups("probe_ops", plan.files(directory, "probe_ops"))
    tasks = plan.windows("probe_ops", groups, OVER.start_us, OVER.end_us, windows)
    assert len(tasks) == windows
    look = OperationsLook(OVER, us(4_000_000), [], 10_000_000, {})
    found = operations.folded(operations.of_task(task, look) for task in tasks)["orders"]
    assert found.cut == {}
    return sorted(found.series, key=lambda row: int(row["ts"])), found.took.value.tolist()


@pytest.mark.parametrize("windows", [7, 100])
def test_divided_stretches_are_plotted_as_whole_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows: int
) -> None:
    monkeypatch.setattr(plan, "TASK_ROWS_MIN", 1)
    sends = [
        send(seq, seq * 1_000, "ok" if seq % 17 else "timeout", took_ms=1 + seq * 7_919 % 300)
        for seq in range(3_600)
    ]
    write_rows(tmp_path, "probe_ops", sends)
    assert OVER.stretch_us % 1_000_000 == 0
    assert plotted(tmp_path, windows) == plotted(tmp_path, 1)
