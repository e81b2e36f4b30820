"""A report of very many failovers, from tables to files: small pages, linked in order, for linear work."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from slo_pipeline.jobs.gather import Row, report
from slo_pipeline.jobs.period import Period
from slo_pipeline.objectives.file import load
from slo_pipeline.reports.files.folder import write_pages
from slo_pipeline.reports.page.incidents import LISTED_MAX

FAILOVERS = 10_000
GROUPS = 2_000
PAGE_BYTES_MAX = 1_000_000
S = 1_000_000
BETWEEN_US = 200 * S
BEGIN_US = 1_790_000_000 * S
PHASES = ("P1 detection", "P6 redundancy")
EMPTY_TABLES = (
    "failovers",
    "failover_phases",
    "closeup_points",
    "closeup_marks",
    "in_sync_steps",
    "booked",
)
NOTHING = dict.fromkeys(("fault", "fault_ts", "fault_healed_ts"))


def _failover(failover_id: str, group: str, epoch: int, at: int) -> Row:
    return NOTHING | {
        "failover_id": failover_id, "cluster": "demo", "group": group, "epoch": epoch, "old_epoch": epoch - 1,
        "cause": "ConnectionClosed", "booking": "failover", "old_master_id": 1, "new_master_id": 2,
        "old_master_address": "10.0.0.1:10911", "new_master_address": "10.0.0.2:10911",
        "sync_state_set_before": "1,2,3", "sync_state_set_after": "2,3",
        "write_gap_ms": 900.0, "order_uncertain": False, "bad_s": 1, "lost_acknowledged": 0,
        "elected_ts": at, "first_ack_ts": at + S,
        "redundancy_ts": at + 9 * S, "gap_start_ts": at - S, "interval_start": at - S,
        "interval_end": at + 9 * S,
    }  # fmt: skip


def _tables(failovers: int, groups: int) -> tuple[dict[str, list[Row]], Period]:
    """Return what Spark finds where each group's master fails again and again."""
    names = [f"注文-{number:04}" for number in range(groups)]
    end_us = BEGIN_US + (failovers + 1) * BETWEEN_US
    made: dict[str, list[Row]] = {
        "sli_window": [
            {"group": name, "window_start": BEGIN_US, "window_end": end_us, "good_s": 900, "bad_s": failovers,
             "unknown_s": 0, "availability": 0.99}
            for name in names
        ],
        "known_groups": [{"group": name, "last_ts": end_us - 1} for name in names],
    } | {name: [] for name in EMPTY_TABLES}  # fmt: skip
    for epoch in range(1, failovers + 1):
        group, at = names[epoch % groups], BEGIN_US + epoch * BETWEEN_US
        its: Row = {"failover_id": f"demo/{group}/{epoch}"}
        made["failovers"].append(_failover(its["failover_id"], group, epoch, at))
        made["failover_phases"] += [
            its | {"phase": phase, "start_ts": at, "end_ts": at + S, "duration_ms": 100.0, "skew_ms": None,
                   "start_clock": "a/1", "end_clock": "a/1", "order": "in_order"}
            for phase in PHASES
        ]  # fmt: skip
        made["closeup_points"] += [
            its | {"ts": at + more * S, "latency_ms": 3.0, "result": "ok"} for more in (0, 1)
        ]
        made["closeup_marks"].append(
            its | {"ts": at, "kind": "RoleNotified", "source": "a/1", "broker_id": 2, "attrs": {}}
        )
        made["in_sync_steps"] += [
            {
                "cluster": "demo",
                "group": group,
                "ts": at + more * 9 * S,
                "members": members,
                "size": len(members) // 2,
            }
            for more, members in enumerate(("2,3,", "1,2,3,"))
        ]
        made["booked"].append(
            its | {"group": group, "slice_start": at, "booking": "failover", "detail": None}
        )
    return made, Period(BEGIN_US, end_us)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a report of ten thousand failovers in two thousand groups."""
    tables, over = _tables(FAILOVERS, GROUPS)
    made = tmp_path_factory.mktemp("report")
    write_pages(report(tables, over, load(), "many"), made)
    return made


def test_every_file_of_a_report_of_ten_thousand_failovers_is_under_a_megabyte(out: Path) -> None:
    sizes = {str(path.relative_to(out)): path.stat().st_size for path in out.rglob("*.*")}
    assert {name: size for name, size in sizes.items() if size >= PAGE_BYTES_MAX} == {}
    # Each file has a row of heads, and the last one a row of sums.
    rows = sum(path.read_text().count("<tr>") - 1 for path in out.glob("lists/failovers-*.html"))
    assert rows - 1 == FAILOVERS


def _link(page: str, rel: str) -> str | None:
    found = re.search(rf'<a href="([^"]+)" rel="{rel}"', page)
    return found[1] if found else None


def test_the_pages_of_the_last_failovers_lead_to_each_other_from_the_first_to_the_last(out: Path) -> None:
    pages = {path.name: path.read_text() for path in (out / "failovers").iterdir()}
    (name,) = [name for name, page in pages.items() if _link(page, "prev") is None]
    walked: list[str] = []
    while True:
        walked.append(name)
        following = _link(pages[name], "next")
        if following is None:
            break
        assert _link(pages[following], "prev") == name
        name = following
    epochs = [int(re.findall(r"to epoch (\d+)", pages[name].split("</title>")[0])[0]) for name in walked]
    assert epochs == list(range(FAILOVERS - LISTED_MAX + 1, FAILOVERS + 1))


def _calls(failovers: int) -> int:
    """Return how many calls of Python functions it takes to gather so many failovers of one group."""
    tables, over = _tables(failovers, 1)
    objectives, counted = load(), 0

    def count(_frame: object, event: str, _argument: Any) -> None:
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count)
    try:
        report(tables, over, objectives, "many")
    finally:
        sys.setprofile(None)
    return counted


def test_ten_times_the_failovers_of_one_group_take_at_most_twelve_times_the_work() -> None:
    assert _calls(500) < 12 * _calls(50)
