"""What the plugin prints, from resources as the API server has them: pure, so that a test needs no cluster.

Everything shown stands in a status that the operator wrote, or in a pod; nothing is computed that another
tool would compute differently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rocketmq_operator.api.broker_group import BrokerGroupStatus, MemberStatus
from rocketmq_operator.api.cluster import RocketMQClusterStatus
from rocketmq_operator.api.conditions import Condition
from rocketmq_operator.api.members.roles import RoleMode
from rocketmq_operator.plugin.advice import ADVICE
from rocketmq_operator.plugin.formatting import NOTHING, age, ago, align_columns, with_count

Json = dict[str, Any]
_GOOD: Final[Mapping[str, str]] = {
    "Ready": "True",
    "MasterElected": "True",
    "InSync": "True",
    "Progressing": "False",
    "PodsAccepted": "True",
    "Paused": "False",
}
"""What each condition says of a group that is well; others are not looked at."""
_GOOD_CLUSTER: Final[Mapping[str, str]] = {
    "Ready": "True",
    "QuorumHealthy": "True",
    "ProxyReady": "True",
    "ListenersReady": "True",
    "InSync": "True",
    "Progressing": "False",
    "VersionSound": "True",
    "PodsAccepted": "True",
    "Paused": "False",
}
"""The same of a cluster."""
_NOT_OF_THE_CLUSTER: Final = frozenset({"NotAsked", "OfAnotherCluster"})
"""Reasons of a cluster's conditions that are not problems."""
EVENTS_SHOWN_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOverview:
    """A group and its related objects.

    Attributes:
        resource: the BrokerGroup.
        nodes: the node of each pod of the group.
        failover: its newest Failover to another member.
        events: Kubernetes' events about the group.
        now: the reference time for ages.
        cluster: the RocketMQCluster of the group; None if it does not exist or was not read.
    """

    resource: Json
    nodes: Mapping[str, str]
    failover: Json | None
    events: Sequence[Json]
    now: datetime
    cluster: Json | None = None

    @property
    def name(self) -> str:
        """The group's name."""
        return str(self.resource["metadata"]["name"])

    @property
    def status(self) -> BrokerGroupStatus:
        """What the operator says of it."""
        return BrokerGroupStatus.model_validate(self.resource.get("status") or {})


def status_lines(view: GroupOverview) -> list[str]:
    """Return the picture of a group.

    It has a line for the group, one for each member, the last failover and current work.
    """
    status = view.status
    lines = [
        _headline(view, status),
        *(f"  {line}" for line in align_columns(_member_rows(view, status), gap=2)),
    ]
    if view.failover is not None:
        lines.append(f"  last failover  {failover_text(view.failover, view.now)}")
    if status.plan.steps:
        more = len(status.plan.steps) - 1
        lines.append(
            f"  next  {status.plan.steps[0]}" + (f", and {with_count(more, 'step')} more" if more else "")
        )
    if status.plan.waiting_for:
        lines.append(f"  waits  {status.plan.waiting_for}")
    return lines


def _headline(view: GroupOverview, status: BrokerGroupStatus) -> str:
    ready = _condition(status, "Ready")
    word = "Unknown" if ready is None else "Ready" if ready.status == "True" else ready.reason
    durability = view.resource["spec"].get("durability", "AllInSync")
    present, _, wanted = status.in_sync.partition("/")
    in_sync = f"{present} of {wanted} in sync" if wanted else "in sync: unknown"
    if _is_static(view):
        return f"{view.name}  {word}  {durability}, static roles: nothing fails over"
    return f"{view.name}  {word}  epoch {status.master.epoch}  {durability}, {in_sync}"


def _member_rows(view: GroupOverview, status: BrokerGroupStatus) -> list[list[str]]:
    return [
        [
            member.name,
            member.role.lower(),
            view.nodes.get(member.name) or "no pod",
            f"id {member.broker_id}" if member.broker_id is not None else "no id",
            _member_text(view, status, member),
        ]
        for member in status.members
    ] + [
        [
            learner.name,
            "learner",
            view.nodes.get(learner.name) or "no pod",
            f"id {learner.broker_id}" if learner.broker_id is not None else "no id",
            _lag_text(learner.lag_bytes) + ("" if learner.ready else ", pod not ready"),
        ]
        for learner in status.learners
    ]


def _is_static(view: GroupOverview) -> bool:
    return bool(view.resource["spec"].get("mode") == RoleMode.STATIC)


def _lag_text(lag_bytes: int | None) -> str:
    return "lag unknown" if lag_bytes is None else f"lag {lag_bytes:,} B"


def _member_text(view: GroupOverview, status: BrokerGroupStatus, member: MemberStatus) -> str:
    if _is_static(view):
        return "" if member.ready else "pod not ready"
    words = []
    if member.role == "Master":
        since = status.master.since
        words.append(f"since {age(since, view.now)}" if since else "since unknown")
    else:
        words.append(_lag_text(member.lag_bytes))
    if not member.in_sync:
        words.append("not in sync")
    if not member.ready:
        words.append("pod not ready")
    if member.takeover:
        words.append(f"its address is served by {member.takeover}")
    return ", ".join(words)


def failover_text(failover: Json, now: datetime) -> str:
    """Return a Failover in one line, without its group."""
    spec, status = failover["spec"], failover.get("status") or {}
    lost = status.get("lostMessages")
    words = [
        ago(_elected_at(failover), now),
        spec["cause"],
        f"{spec['to']} again"
        if is_reelection(failover)
        else f"{spec.get('from') or NOTHING} -> {spec['to']}",
        f"{status['writeGap']} without a write" if status.get("writeGap") else "gap not measured",
        f"{lost} lost" if lost is not None else "loss not measured",
    ]
    return "  ".join(words)


def list_lines(views: Sequence[GroupOverview]) -> list[str]:
    """Return one line for each group."""
    return [_headline(view, view.status) for view in views] or ["no broker groups found"]


def failover_lines(failovers: Sequence[Json], now: datetime) -> list[str]:
    """Return a table of Failovers, the newest first."""
    rows = [["NAME", "CAUSE", "FROM", "TO", "GAP", "LOST", "TOOK", "AGE"]]
    for one in newest_first(failovers):
        spec, status = one["spec"], one.get("status") or {}
        made = _elected_at(one)
        lost = status.get("lostMessages")
        rows.append(
            [
                one["metadata"]["name"],
                spec["cause"],
                spec.get("from") or NOTHING,
                f"{spec['to']} again" if is_reelection(one) else spec["to"],
                status.get("writeGap") or NOTHING,
                NOTHING if lost is None else str(lost),
                status.get("took") or NOTHING,
                age(made, now) if made else NOTHING,
            ]
        )
    return align_columns(rows) if len(rows) > 1 else ["there are no failovers"]


def is_reelection(failover: Json) -> bool:
    """Tell whether a Failover is of a master that was elected again.

    The record may be of any version of the operator.
    """
    spec = failover["spec"]
    return bool(spec.get("reelection")) or spec.get("from") == spec["to"]


def newest_first(failovers: Sequence[Json]) -> list[Json]:
    """Return Failovers by the time of their change, then by epoch."""
    return sorted(
        failovers,
        key=lambda one: (str(_elected_at(one) or ""), one["spec"]["group"], one["spec"]["newEpoch"]),
        reverse=True,
    )


def explain_lines(view: GroupOverview) -> list[str]:
    """Return the problems of a group and its cluster, the operator's actions, and possible remedies."""
    status = view.status
    wrong = [one for one in status.conditions if _GOOD.get(one.type, one.status) != one.status]
    lines = [_headline(view, status), *_problem_lines(wrong, view.now)]
    if not wrong:
        lines.append("  nothing is wrong with it")
    lines += [f"  next  {step}" for step in status.plan.steps]
    if status.plan.waiting_for:
        lines.append(f"  waits  {status.plan.waiting_for}")
    return lines + _cluster_lines(view) + [f"  {line}" for line in _event_lines(view)]


def _cluster_lines(view: GroupOverview) -> list[str]:
    """Return the problems of a group's cluster; empty if it has none."""
    if view.cluster is None:
        return []
    conditions = RocketMQClusterStatus.model_validate(view.cluster.get("status") or {}).conditions
    wrong = [
        one
        for one in conditions
        if _GOOD_CLUSTER.get(one.type, one.status) != one.status and one.reason not in _NOT_OF_THE_CLUSTER
    ]
    head = f"  its RocketMQCluster {view.cluster['metadata']['name']}:"
    return [head, *_problem_lines(wrong, view.now)] if wrong else []


def _problem_lines(wrong: Sequence[Condition], now: datetime) -> list[str]:
    lines = []
    for one in wrong:
        lines.append(
            f"  {one.type} is {one.status} ({one.reason}) since {age(one.last_transition_time, now)}"
        )
        if one.message:
            lines.append(f"    {one.message}")
        if one.reason in ADVICE:
            lines.append(f"    what to do: {ADVICE[one.reason]}")
    return lines


def _event_lines(view: GroupOverview) -> list[str]:
    found = sorted(view.events, key=lambda one: str(one.get("eventTime") or ""), reverse=True)
    return [
        f"event  {ago(_time(one.get('eventTime')), view.now)}  {one.get('reason', '')}: {one.get('note', '')}"
        for one in found[:EVENTS_SHOWN_MAX]
    ]


def _condition(status: BrokerGroupStatus, type_: str) -> Condition | None:
    return next((one for one in status.conditions if one.type == type_), None)


def _elected_at(failover: Json) -> datetime | None:
    """Return when a master was elected, as near as it is known."""
    phases = {one["name"]: one["at"] for one in (failover.get("status") or {}).get("phases", [])}
    for name in ("Proposed", "Committed"):
        if name in phases:
            return _time(phases[name])
    return _time(failover["metadata"].get("creationTimestamp"))


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
