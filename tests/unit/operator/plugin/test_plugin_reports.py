"""`kubectl rmqha report`: what reports came to, in words, and one that is made now because somebody asks."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from rocketmq_operator.plugin import reports
from rocketmq_operator.plugin.queries import RequestError
from testkit.memory.reports import NAMESPACE, REPORT, ReportWorld

Json = dict[str, Any]
NOW = datetime(2026, 11, 20, 12, 5, tzinfo=UTC)
SAID = json.dumps(
    {
        "verdict": "Outside the error budget",
        "objectives": [
            {
                "name": "writes",
                "group": "orders",
                "target": 99.95,
                "attained": 0.9991,
                "left": -0.75,
                "holds": False,
            },
            {
                "name": "durability",
                "group": "pay",
                "target": 100.0,
                "attained": 1.0,
                "left": None,
                "holds": True,
            },
        ],
        "more": 0,
    }
)


async def _reported() -> ReportWorld:
    world = ReportWorld()
    await world.one_pass()
    world.put_success("weekly-1", SAID)
    await world.one_pass()
    return world


async def test_each_report_has_a_line_with_its_worst_objective_and_its_page() -> None:
    world = await _reported()
    head, line = reports.list_lines(await reports.reports_of(world.kube, NAMESPACE, None), NOW)
    assert head.split() == ["NAME", "ATTAINED", "BUDGET", "LAST", "RUN", "RESULT", "PAGE"]
    assert line.split() == [
        REPORT,
        "99.91%",
        "-75%",
        "5m",
        "ago",
        "Succeeded",
        "http://demo-report.shop.svc/reports/weekly/",
    ]


async def test_one_report_shows_every_objective_the_one_with_the_least_budget_first() -> None:
    world = await _reported()
    (found,) = await reports.reports_of(world.kube, NAMESPACE, REPORT)
    said, head, first, second, page = reports.report_lines(found, NOW)
    assert said == "weekly  Succeeded 5m ago  Outside the error budget"
    assert head.split() == ["OBJECTIVE", "GROUP", "TARGET", "ATTAINED", "BUDGET"]
    assert first.split() == ["writes", "orders", "99.95%", "99.91%", "-75%"]
    assert second.split() == ["durability", "pay", "100%", "100%", "kept"]
    assert page.endswith("/reports/weekly/")


async def test_a_report_that_was_never_run_says_so() -> None:
    world = ReportWorld()
    await world.one_pass()
    (found,) = await reports.reports_of(world.kube, NAMESPACE, REPORT)
    assert reports.report_lines(found, NOW) == ["weekly  no run has ended yet"]


async def test_a_run_that_is_asked_for_is_a_job_of_its_cron_job_and_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "POLL_S", 0.0)
    world = await _reported()
    created = asyncio.Event()
    world.kube.on_wrote = created.set
    asked = asyncio.create_task(reports.run_now(world.kube, NAMESPACE, REPORT, 30.0))
    await created.wait()
    jobs = await world.kube.find("Job", NAMESPACE, {})
    (made,) = [job for job in jobs if job["metadata"]["name"] != "weekly-1"]
    assert made["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    assert made["metadata"]["ownerReferences"][0]["uid"] == world.get("CronJob", REPORT)["metadata"]["uid"]
    world.advance(1)
    world.put_success(made["metadata"]["name"], SAID)
    await world.one_pass()
    assert (await asked)["status"]["lastJob"] == made["metadata"]["name"]


async def test_a_run_that_does_not_end_in_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "POLL_S", 0.0)
    world = await _reported()
    with pytest.raises(RequestError, match=r"Job weekly-\w+ did not end within 0\.05 s"):
        await reports.run_now(world.kube, NAMESPACE, REPORT, 0.05)


async def test_a_report_that_is_not_there_is_named() -> None:
    world = ReportWorld()
    with pytest.raises(RequestError, match="SLOReport monthly does not exist in namespace shop"):
        await reports.reports_of(world.kube, NAMESPACE, "monthly")


async def test_a_report_without_a_cron_job_cannot_be_run_and_says_where_to_look() -> None:
    world = ReportWorld()
    with pytest.raises(RequestError, match="kubectl describe rmqslo weekly"):
        await reports.run_now(world.kube, NAMESPACE, REPORT, 1.0)
