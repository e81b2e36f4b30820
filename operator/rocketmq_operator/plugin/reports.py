"""`kubectl rmqha report`: results of SLOReports, and one made now because somebody asks.

The command shows the status that the operator wrote and computes no objective. A requested run is a Job of
the report's own CronJob, as `kubectl create job --from` makes one, with the user's permissions.
"""

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rocketmq_operator.api.names import REPORT_KIND
from rocketmq_operator.api.slo_report import SLOReportStatus
from rocketmq_operator.clients.api import Json
from rocketmq_operator.plugin.formatting import NOTHING, ago, align_columns
from rocketmq_operator.plugin.queries import GroupServer, RequestError

POLL_S: Final = 1.0
_INSTANTIATE: Final = {"cronjob.kubernetes.io/instantiate": "manual"}


async def reports_of(server: GroupServer, namespace: str, name: str | None) -> list[Json]:
    """Return a report, or all of the namespace.

    Raises:
        RequestError: no such report.
    """
    if name is None:
        return await server.find(REPORT_KIND.kind, namespace, {})
    found = await server.get(REPORT_KIND.kind, namespace, name)
    if found is None:
        raise RequestError(f"SLOReport {name} does not exist in namespace {namespace}")
    return [found]


async def run_now(server: GroupServer, namespace: str, name: str, timeout_s: float) -> Json:
    """Have a report made, wait until the operator tells what it came to, and return the SLOReport.

    Raises:
        RequestError: no such report, no CronJob yet, or no result in time.
    """
    await reports_of(server, namespace, name)
    cron_job = await server.get("CronJob", namespace, name)
    if cron_job is None:
        raise RequestError(
            f"the CronJob of {name} does not exist yet: kubectl describe rmqslo {name} says why"
        )
    job = f"{name}-{int(time.time()):x}"
    await server.create(_job(cron_job, job))
    began_s = time.monotonic()
    while time.monotonic() - began_s < timeout_s:
        (report,) = await reports_of(server, namespace, name)
        if _status(report).last_job == job:
            return report
        await asyncio.sleep(POLL_S)
    raise RequestError(f"Job {job} did not end within {timeout_s:g} s: kubectl describe job {job}")


def _job(cron_job: Json, name: str) -> Json:
    template, metadata = cron_job["spec"]["jobTemplate"], cron_job["metadata"]
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    given = template.get("metadata", {})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": given.get("labels", {}),
            "annotations": given.get("annotations", {}) | _INSTANTIATE,
            "ownerReferences": [owner],
        },
        "spec": template["spec"],
    }


def list_lines(reports: Sequence[Json], now: datetime) -> list[str]:
    """Return a table of reports."""
    rows = [["NAME", "ATTAINED", "BUDGET", "LAST RUN", "RESULT", "PAGE"]]
    for report in reports:
        status = _status(report)
        rows.append(
            [
                report["metadata"]["name"],
                status.attained or NOTHING,
                status.budget_left or NOTHING,
                ago(status.last_run, now),
                status.last_result or status.reason or NOTHING,
                status.address or NOTHING,
            ]
        )
    return align_columns(rows) if len(rows) > 1 else ["no reports found: apply an SLOReport"]


def report_lines(report: Json, now: datetime) -> list[str]:
    """Return what one report says.

    That is its last run, each objective with the least budget left first, and where its page is.
    """
    status, name = _status(report), report["metadata"]["name"]
    if status.last_run is None:
        return [f"{name}  {status.reason or 'no run has ended yet'}"]
    lines = [f"{name}  {status.last_result} {ago(status.last_run, now)}  {status.last_message}".rstrip()]
    if status.objectives:
        rows = [["OBJECTIVE", "GROUP", "TARGET", "ATTAINED", "BUDGET"]]
        rows += [
            [one.name, one.group or NOTHING, one.target, one.attained or NOTHING, one.budget_left or NOTHING]
            for one in status.objectives
        ]
        lines += [f"  {line}" for line in align_columns(rows)]
    if status.address:
        lines.append(f"  page  {status.address}")
    return lines


def _status(report: Json) -> SLOReportStatus:
    return SLOReportStatus.model_validate(report.get("status") or {})
