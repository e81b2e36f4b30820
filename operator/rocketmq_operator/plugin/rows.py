"""The rows of `kubectl rmqha -o csv`: one flat mapping for each object.

A command's JSON and YAML have the whole resources; its table is drawn by `rendering` and `reports`.
"""

from collections.abc import Sequence
from typing import Any

from rocketmq_operator.api.slo_report import SLOReportStatus
from rocketmq_operator.clients.api import Json
from rocketmq_operator.plugin.rendering import GroupOverview, newest_first

Row = dict[str, Any]


def group_rows(views: Sequence[GroupOverview]) -> list[Row]:
    """Return one row for each group."""
    return [
        {
            "group": view.name,
            "ready": next((one.status for one in view.status.conditions if one.type == "Ready"), None),
            "master": view.status.master.name,
            "master_epoch": view.status.master.epoch,
            "in_sync": view.status.in_sync,
        }
        for view in views
    ]


def member_rows(view: GroupOverview) -> list[Row]:
    """Return one row for each member of a group."""
    return [
        {
            "group": view.name,
            "member": member.name,
            "role": member.role,
            "node": view.nodes.get(member.name),
            "broker_id": member.broker_id,
            "in_sync": member.in_sync,
            "ready": member.ready,
            "lag_bytes": member.lag_bytes,
        }
        for member in view.status.members
    ]


def failover_rows(failovers: Sequence[Json]) -> list[Row]:
    """Return one row for each Failover, the newest first."""
    rows = []
    for one in newest_first(failovers):
        spec, status = one["spec"], one.get("status") or {}
        rows.append(
            {
                "name": one["metadata"]["name"],
                "group": spec["group"],
                "cause": spec["cause"],
                "from": spec.get("from"),
                "to": spec["to"],
                "new_epoch": spec["newEpoch"],
                "write_gap": status.get("writeGap"),
                "lost_messages": status.get("lostMessages"),
                "took": status.get("took"),
            }
        )
    return rows


def condition_rows(view: GroupOverview) -> list[Row]:
    """Return one row for each condition of a group."""
    return [
        {
            "group": view.name,
            "condition": one.type,
            "status": one.status,
            "reason": one.reason,
            "since": one.last_transition_time.isoformat(),
            "message": one.message,
        }
        for one in view.status.conditions
    ]


def report_rows(found: Sequence[Json]) -> list[Row]:
    """Return one row for each SLOReport."""
    rows = []
    for report in found:
        status = SLOReportStatus.model_validate(report.get("status") or {})
        rows.append(
            {
                "name": report["metadata"]["name"],
                "attained": status.attained,
                "budget_left": status.budget_left,
                "last_run": status.last_run.isoformat() if status.last_run else None,
                "last_result": status.last_result,
                "address": status.address,
            }
        )
    return rows


def objective_rows(report: Json) -> list[Row]:
    """Return one row for each objective of an SLOReport."""
    status = SLOReportStatus.model_validate(report.get("status") or {})
    return [
        {
            "report": report["metadata"]["name"],
            "objective": one.name,
            "group": one.group,
            "target": one.target,
            "attained": one.attained,
            "budget_left": one.budget_left,
        }
        for one in status.objectives
    ]
