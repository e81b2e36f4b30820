"""The status of a cluster and of a group, computed from the observation and the plan.

`Ready` of a group means that clients can send with the durability they were promised: there is a master, its
pod serves, and enough members are in the SyncStateSet. The reason of `Ready` is the one word that people see
in `kubectl get`.

While no controller answers, roles are shown as they were last known: brokers go on serving, and `Ready` is
Unknown and says why.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from rocketmq_operator.api.broker_group import (
    BrokerGroupStatus,
    MasterStatus,
    MemberStatus,
    PlanStatus,
)
from rocketmq_operator.api.conditions import Finding, make_finding, merge_findings
from rocketmq_operator.api.members.learners import LearnerStatus
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import ResourcePlan
from rocketmq_operator.plan.common.parts import digest
from rocketmq_operator.plan.common.shaping.shaped import REFUSED, accepted_finding
from rocketmq_operator.plan.group.children import broker_conf, broker_selector, member_names
from rocketmq_operator.plan.group.failovers import record_name
from rocketmq_operator.plan.group.learners.learner_children import learner_names
from rocketmq_operator.plan.group.observed import ObservedGroup, ReportedMember
from rocketmq_operator.plan.group.observed_pods import pod_refusal
from rocketmq_operator.plan.group.pod_sets.live_settings import settings_finding
from rocketmq_operator.plan.group.static.static_status import (
    static_findings,
    static_master,
    static_members,
    static_ready,
)
from rocketmq_operator.plan.group.static.static_steps import effective, is_static
from rocketmq_operator.plan.group.takeover import server_of
from rocketmq_operator.plan.group.trouble import group_troubles
from rocketmq_operator.plan.pods.health import health_findings
from rocketmq_operator.plan.pods.member_trouble import MemberTrouble
from rocketmq_operator.plan.pods.observed import OVERDUE
from rocketmq_operator.plan.pods.progress import (
    observed_generation,
    paused_finding,
    progressing,
    reason_column,
    with_causes,
)
from rocketmq_operator.plan.pods.volumes import storage_findings

STEPS_SHOWN_MAX: Final = 64
_ASLEEP: Final = "spec.hibernated is true: no pod runs, volumes and addresses stay"
HIBERNATED: Final = make_finding("Progressing", holds=False, reason="Hibernated", message=_ASLEEP)
TEXT_LENGTH_MAX: Final = 256
NAMES_SHOWN_MAX: Final = 5
LEVEL_BYTES_MAX: Final = 16 << 20
"""A member at most this far behind counts as level. Under writes the exact number differs in each observation
and would cause a status write each time."""


def group_status(observed: ObservedGroup, plan: ResourcePlan) -> BrokerGroupStatus:
    """Return the status of a group."""
    observed = effective(observed)
    troubles, metadata = group_troubles(observed), _metadata_in_sync(observed)
    others: tuple[Finding, ...] = ()
    if is_static(observed):
        members = static_members(observed)
        works_for, others = [static_ready(observed, plan, troubles)], static_findings()
    else:
        members = tuple(_member(observed, name) for name in member_names(observed.owner.name, observed.spec))
        works_for = [
            _group_ready(observed, plan, members, troubles),
            _master_elected(observed),
            _in_sync(observed, members, troubles),
        ]
    if observed.spec.hibernated and observed.cluster is not None:
        works_for[0] = _ready_asleep(observed)
    asleep = is_asleep(observed, plan)
    progress = HIBERNATED if asleep else progressing(plan, troubles, [*works_for, metadata])
    findings = [
        *works_for,
        *others,
        progress,
        *health_findings(works_for[0], progress, paused=observed.spec.paused or asleep),
        *_hibernated(observed, asleep=asleep),
        metadata,
        *_users_in_sync(observed),
        *_config_applied(observed),
        *storage_findings(observed.spec),
        accepted_finding(pod_refusal(observed)),
        paused_finding(paused=observed.spec.paused),
    ]
    conditions = merge_findings(
        observed.status.conditions, findings, generation=observed.generation, now=observed.now
    )
    live = observed.child("StatefulSet", observed.owner.name)
    selector = ",".join(
        f"{key}={value}" for key, value in sorted(broker_selector(observed.owner.name).items())
    )
    return BrokerGroupStatus(
        observed_generation=observed_generation(
            observed.status.observed_generation, observed.generation, plan
        ),
        conditions=conditions,
        replicas=live.get("status", {}).get("replicas", 0) if live else 0,
        selector=selector,
        version=observed.cluster.version if observed.cluster else "",
        master=static_master(observed) if is_static(observed) else _master(observed),
        in_sync=f"{sum(member.in_sync for member in members)}/{len(members)}"
        if _is_master_known(observed) and not is_static(observed)
        else "",
        members=members,
        learners=tuple(
            _learner(observed, name) for name in learner_names(observed.owner.name, observed.spec)
        ),
        plan=PlanStatus(
            steps=tuple(str(step)[:TEXT_LENGTH_MAX] for step in plan.steps[:STEPS_SHOWN_MAX]),
            waiting_for=plan.wait.message[:TEXT_LENGTH_MAX] if plan.wait else "",
        ),
        last_failover=_last_failover(observed),
        reason=reason_column(works_for[0], plan, troubles),
    )


def is_asleep(observed: ObservedGroup, plan: ResourcePlan) -> bool:
    """Tell whether the group hibernates and nothing is left to stop."""
    return observed.spec.hibernated and not observed.pods and not plan.steps and plan.wait is None


def _ready_asleep(observed: ObservedGroup) -> Finding:
    reason = "Hibernating" if observed.pods else "Hibernated"
    return make_finding("Ready", holds=False, reason=reason, message="spec.hibernated is true")


def _hibernated(observed: ObservedGroup, *, asleep: bool) -> tuple[Finding, ...]:
    """Return whether the group hibernates; nothing for a group that is not asked to."""
    if not observed.spec.hibernated:
        return ()
    if asleep:
        return (make_finding("Hibernated", holds=True, reason="Hibernated", message=_ASLEEP),)
    text = f"{len(observed.pods)} pods remain"
    return (make_finding("Hibernated", holds=False, reason="Hibernating", message=text),)


def _metadata_in_sync(observed: ObservedGroup) -> Finding:
    lacking = {broker: files for broker, files in sorted(observed.missing_metadata.items()) if files}
    if lacking:
        told = (
            f"{broker} lacks {len(lost)} of {file}, {', '.join(lost[:NAMES_SHOWN_MAX])}"
            for broker, files in lacking.items()
            for file, lost in sorted(files.items())
        )
        return make_finding("MetadataInSync", holds=False, reason="SlaveLacks", message="; ".join(told))
    if not observed.missing_metadata:
        text = "no companion of a slave has compared it with its master"
        return make_finding("MetadataInSync", holds=None, reason="NotCompared", message=text)
    text = (
        f"{', '.join(sorted(observed.missing_metadata))}: all topics, groups and offsets of the master are "
        "known"
    )
    return make_finding("MetadataInSync", holds=True, reason="AllKnown", message=text)


def _users_in_sync(observed: ObservedGroup) -> tuple[Finding, ...]:
    """Return whether slaves have the users of their master; nothing for a cluster without users."""
    if observed.cluster is None or not observed.cluster.has_users:
        return ()
    lacking = [broker for broker, holds in sorted(observed.users_in_sync.items()) if not holds]
    if lacking:
        text = f"{', '.join(lacking)}: users or rights differ from those of the master"
        return (make_finding("UsersInSync", holds=False, reason="SlaveLacksUsers", message=text),)
    if not observed.users_in_sync:
        text = "no companion of a slave has compared its users with those of its master"
        return (make_finding("UsersInSync", holds=None, reason="NotCompared", message=text),)
    text = f"{', '.join(sorted(observed.users_in_sync))}: all users and rights of the master"
    return (make_finding("UsersInSync", holds=True, reason="AllKnown", message=text),)


def _config_applied(observed: ObservedGroup) -> tuple[Finding, ...]:
    if observed.cluster is None:
        return ()
    file = digest(broker_conf(observed.owner, observed.spec, observed.cluster))
    return settings_finding(observed.spec, observed.told_settings, file)


def _group_ready(
    observed: ObservedGroup,
    plan: ResourcePlan,
    members: tuple[MemberStatus, ...],
    troubles: Sequence[MemberTrouble],
) -> Finding:
    wait = plan.wait
    if wait is not None and wait.reason in {"NoCluster", "NameTaken", "ScaleInRefused"}:
        return make_finding("Ready", holds=False, reason=wait.reason, message=wait.message)
    if wait is not None and wait.reason == REFUSED and not observed.pods:
        return make_finding("Ready", holds=False, reason=wait.reason, message=wait.message)
    if not observed.controllers_answered:
        text = with_causes("no controller answers: roles are those that were last known", troubles)
        return make_finding("Ready", holds=None, reason="ControllersUnreachable", message=text)
    master = observed.master
    if observed.group is None or not master:
        text = with_causes(_no_master_text(observed), troubles)
        return make_finding("Ready", holds=False, reason="NoMaster", message=text)
    pod = observed.pods.get(master)
    if pod is None or not pod.ready or pod.deleting:
        text = with_causes(f"the pod of {master} is not ready", troubles, [master])
        return make_finding("Ready", holds=False, reason="MasterNotServing", message=text)
    needed = observed.spec.members_for_writes
    in_sync = sum(member.in_sync for member in members)
    if in_sync < needed:
        text = (
            f"{in_sync} members are in the SyncStateSet, {observed.spec.durability} needs {needed}: writes "
            "are refused"
        )
        away = [member.name for member in members if not member.in_sync]
        return make_finding(
            "Ready", holds=False, reason="TooFewInSync", message=with_causes(text, troubles, away)
        )
    return make_finding(
        "Ready", holds=True, reason="Serving", message=f"{master} serves, {in_sync} members are in sync"
    )


def _no_master_text(observed: ObservedGroup) -> str:
    reason = observed.group.failure_reason if observed.group else "the controllers do not know the group yet"
    return f"the group lacks a master: {reason or 'none was elected'}"


def _master_elected(observed: ObservedGroup) -> Finding:
    if not observed.controllers_answered:
        return make_finding(
            "MasterElected", holds=None, reason="ControllersUnreachable", message="no controller answers"
        )
    if not observed.master:
        reason = observed.group.failure_reason if observed.group else ""
        word = reason if reason.isascii() and reason.isalnum() and reason[0].isalpha() else "NoMaster"
        return make_finding("MasterElected", holds=False, reason=word, message=_no_master_text(observed))
    epoch = observed.group.master_epoch if observed.group else 0
    return make_finding(
        "MasterElected", holds=True, reason="Elected", message=f"{observed.master} in epoch {epoch}"
    )


def _in_sync(
    observed: ObservedGroup, members: tuple[MemberStatus, ...], troubles: Sequence[MemberTrouble]
) -> Finding:
    if not observed.controllers_answered:
        return make_finding(
            "InSync", holds=None, reason="ControllersUnreachable", message="no controller answers"
        )
    behind = [member.name + _on_lost_node(observed, member.name) for member in members if not member.in_sync]
    if behind:
        away = [member.name for member in members if not member.in_sync]
        text = with_causes(f"not in sync: {', '.join(behind)}", troubles, away)
        return make_finding("InSync", holds=False, reason="MembersBehind", message=text)
    return make_finding(
        "InSync", holds=True, reason="AllInSync", message=f"all {len(members)} members are in sync"
    )


def _on_lost_node(observed: ObservedGroup, name: str) -> str:
    """Say that a member waits for a node that does not answer, empty if it does not."""
    pod = observed.pods.get(name)
    if pod is None:
        return ""
    if pod.gone_by is not None and observed.now - pod.gone_by > OVERDUE:
        return " (its node does not confirm that its pod has ended)"
    return " (no node that could run it has its volume)" if pod.stranded_since is not None else ""


def _is_master_known(observed: ObservedGroup) -> bool:
    """Tell whether roles are known, now or from before."""
    return observed.group is not None or (not observed.controllers_answered and bool(observed.status.in_sync))


def _master(observed: ObservedGroup) -> MasterStatus:
    group = observed.group
    if not observed.controllers_answered:
        return observed.status.master
    if group is None or group.master_id is None:
        return MasterStatus(epoch=group.master_epoch if group else 0)
    return MasterStatus(
        name=observed.master,
        broker_id=group.master_id,
        epoch=group.master_epoch,
        since=_elected_at(observed, group.master_epoch),
    )


def _elected_at(observed: ObservedGroup, epoch: int) -> datetime | None:
    return next((one.proposed for one in observed.failovers if one.new_epoch == epoch), None)


def _member(observed: ObservedGroup, name: str) -> MemberStatus:
    reported, pod = observed.reported_member(name), observed.pods.get(name)
    slice_ = observed.child("EndpointSlice", name)
    server = (server_of(slice_) if slice_ else "") or name
    ready = pod is not None and pod.ready and not pod.deleting
    takeover = "" if server == name else server
    before = next((one for one in observed.status.members if one.name == name), None)
    if not observed.controllers_answered and before is not None:
        return before.model_copy(update={"ready": ready, "takeover": takeover})
    return MemberStatus(
        name=name,
        role=_role(observed, name, reported),
        broker_id=reported.broker_id if reported else None,
        in_sync=reported is not None and reported.in_sync,
        ready=ready,
        lag_bytes=_lag(observed, reported),
        takeover=takeover,
    )


def _learner(observed: ObservedGroup, name: str) -> LearnerStatus:
    reported, pod = observed.reported_member(name), observed.pods.get(name)
    ready = pod is not None and pod.ready and not pod.deleting
    before = next((one for one in observed.status.learners if one.name == name), None)
    if not observed.controllers_answered and before is not None:
        return before.model_copy(update={"ready": ready})
    return LearnerStatus(
        name=name,
        broker_id=reported.broker_id if reported else None,
        ready=ready,
        alive=reported is not None and reported.alive,
        lag_bytes=_lag(observed, reported),
    )


def _role(observed: ObservedGroup, name: str, reported: ReportedMember | None) -> str:
    if names.is_member(name, names.log_set(observed.owner.name)):
        return "Log"
    if reported is None:
        return "Unknown"
    return "Master" if name == observed.master else "Slave"


def _lag(observed: ObservedGroup, reported: ReportedMember | None) -> int | None:
    if observed.group is None or reported is None or reported.max_offset is None:
        return None
    master = next((one for one in observed.group.members if one.broker_id == observed.group.master_id), None)
    if master is None or master.max_offset is None:
        return None
    lag_bytes = master.max_offset - reported.max_offset
    return lag_bytes if lag_bytes > LEVEL_BYTES_MAX else 0


def _last_failover(observed: ObservedGroup) -> str:
    newest = next((one for one in observed.failovers if one.had_master and not one.is_reelection), None)
    return "" if newest is None else record_name(newest.group, newest.new_epoch)
