"""Tasks cover a period once, begin at whole seconds, and are bounded by the rows that footers count."""

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slo_pipeline.jobs.single_pass import plan, rows
from slo_pipeline.jobs.single_pass.plan import RowGroup, Task
from testkit.generators.segment_rows import send, us
from testkit.generators.synthetic import write_rows

S = 1_000_000
GROUPS = st.lists(
    st.tuples(st.integers(-500, 1_500), st.integers(0, 800), st.integers(1, 2_000_000)),
    min_size=1,
    max_size=8,
).map(
    lambda found: [
        RowGroup(f"{place}", 0, count, first * S, (first + length) * S)
        for place, (first, length, count) in enumerate(found)
    ]
)


@settings(max_examples=40)
@given(GROUPS, st.integers(1, 8))
def test_windows_cover_the_span_of_each_row_group_once(groups: list[RowGroup], cores: int) -> None:
    tasks = plan.windows("probe_ops", groups, 100 * S, 1_100 * S, cores)
    for group in groups:
        own = [task for task in tasks if (group.path, (0,)) in task.parts]
        for at in {max(group.first_us, 100 * S), (group.first_us + group.last_us) // 2, group.last_us}:
            is_inside = group.first_us <= at <= group.last_us and 100 * S <= at < 1_100 * S
            if is_inside:
                parts = [(task.part, task.parts_of) for task in own if task.start_us <= at < task.end_us]
                assert parts == [(part, len(parts)) for part in range(len(parts))], group
                assert parts
    assert all(task.start_us % S == 0 for task in tasks)
    assert [task.start_us for task in tasks] == sorted(task.start_us for task in tasks)


@pytest.mark.parametrize("row_groups", [1, 30])
def test_a_task_has_about_its_share_of_rows_and_not_more_than_the_bound(row_groups: int) -> None:
    each, width = 10 * plan.TASK_ROWS_MAX // row_groups, 86_400 * S // row_groups
    day = [RowGroup("a", one, each, one * width, (one + 1) * width - 1) for one in range(row_groups)]
    tasks = plan.windows("probe_ops", day, 0, 86_400 * S, 2)
    assert len(tasks) == 10
    assert max(task.rows for task in tasks) <= plan.TASK_ROWS_MAX * 1.02


def test_a_busy_hour_is_cut_finer_than_a_quiet_day() -> None:
    quiet = RowGroup("a", 0, plan.TASK_ROWS_MAX, 0, 86_400 * S)
    busy = RowGroup("b", 0, 9 * plan.TASK_ROWS_MAX, 3_600 * S, 7_200 * S)
    tasks = plan.windows("probe_ops", [quiet, busy], 0, 86_400 * S, 1)
    assert sum(task.end_us <= 7_200 * S for task in tasks) >= 8
    assert max(task.rows for task in tasks) <= plan.TASK_ROWS_MAX * 1.02


def test_few_rows_are_one_task() -> None:
    assert len(plan.windows("probe_ops", [RowGroup("a", 0, 10, 0, 99 * S)], 0, 100 * S, 64)) == 1


def test_a_second_of_too_many_rows_is_divided_by_its_groups(tmp_path: Path) -> None:
    tasks = plan.windows("probe_ops", [RowGroup("a", 0, 3 * plan.TASK_ROWS_MAX, 0, 9)], 0, S, 1)
    assert [(task.part, task.parts_of) for task in tasks] == [(0, 3), (1, 3), (2, 3)]
    write_rows(tmp_path, "probe_ops", [send(seq, seq, group=f"g{seq}") for seq in range(20)])
    paths = plan.files(tmp_path, "probe_ops")
    parted = [
        task._replace(parts=((str(paths[0]), (0,)),), start_us=us(0), end_us=us(1_000)) for task in tasks
    ]
    found = [rows.numbers(rows.read(task, ["seq"], us(10_000)), "seq").tolist() for task in parted]
    assert sorted(number for own in found for number in own) == list(range(20))
    assert all(0 < len(own) < 20 for own in found)


def test_a_row_group_without_a_range_is_read_by_every_task() -> None:
    known, unknown = RowGroup("a", 0, 10**6, 0, 999 * S), RowGroup("b", 0, 10**6, -(1 << 62), 1 << 62)
    tasks = plan.windows("probe_ops", [known, unknown], 0, 1_000 * S, 4)
    assert len(tasks) == 4
    assert all(("b", (0,)) in task.parts for task in tasks)


def test_a_task_reads_the_credible_rows_of_its_window(tmp_path: Path) -> None:
    late = send(9, 3_000, end_ts=us(1e12))
    write_rows(tmp_path, "probe_ops", [*[send(seq, seq * 1_000) for seq in range(6)], late])
    paths = plan.files(tmp_path, "probe_ops")
    (group,) = plan.row_groups("probe_ops", paths)
    task = Task("probe_ops", ((str(paths[0]), (0,)),), us(2_000), us(4_000), group.rows)
    found = rows.read(task, ["seq", "group"], us(10_000))
    assert rows.numbers(found, "seq").tolist() == [2, 3]
    assert rows.texts(found, "group").used() == ["orders"]


@pytest.mark.parametrize(
    "when", [dt.datetime(1970, 1, 1, 0, 0, 1), dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)]
)
def test_a_moment_without_a_zone_is_in_utc(when: dt.datetime) -> None:
    assert plan.micros(when) == 1_000_000
