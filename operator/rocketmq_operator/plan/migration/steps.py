"""Migrate a broker group that predates controller mode to a BrokerGroup.

This module has the steps, their completion conditions and obstacles.

A migration is a table of steps in order; the first incomplete step is the next. The migration stores no
progress: each step derives its completion from the observation, so a later call, after a crash or after a
week, continues.

    step      done when                                        possible obstacles
    close     no old broker announces that it takes messages   the old brokers, the request
    stop      no old broker runs                               a slave lacks data; DLedger: unread messages
    compare   each volume records the contents of its log      -
    prepare   each volume records the kept part of its store   a damaged or shortened log of the master
    hand      the old master's volume is bound for member 0    -
    create    the BrokerGroup is there                         objects of its name
    lead      member 0 is master                               another one is
    join      the other volumes are bound too                  -
    ready     the BrokerGroup is Ready                         -
    prove     that stands on the BrokerGroup                   less there than there was

**Order of start.** Controllers give the first mastership of a group to the first broker that asks, and a
slave truncates its log to that of its master. Started together, a slave with a longer or an empty log might
win, and the master's messages would be lost. So the others' volumes stay unbound until member 0, which has
the old master's volume, is master: their claims exist but cannot bind, so their pods wait, and Kubernetes
creates no empty volume for them. For the same reason the BrokerGroup must ask for as many brokers as there
are volumes.

**Unequal logs.** The migration keeps the master's log. It empties a slave whose log differs in records or
end; the slave then copies from its master. Never the other way round: no broker acknowledged the records that
a slave has beyond its master.

**The way back** leads from anywhere before `prepare`: writes are allowed, pods started again. From there on
stores are ours.

**No volume is ever without a name.** A volume whose claim is gone is one that provisioners delete, some
whatever its policy says. So it gets the policy Retain and the name of its next claim while the old claim is
still there, in one write; then the old claim goes. Of the two, only the volume's word counts.

Source: RocketMQ docs/cn/controller/deploy.md, upgrade; Kubernetes' pv_controller.go, syncUnboundClaim and
syncBoundClaim.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.migration import pods as migration_pods
from rocketmq_operator.plan.migration.checks import (
    creation_obstacle,
    master_log_problem,
    missing_at_new_master,
    old_broker_problem,
    why_not_stoppable,
)
from rocketmq_operator.plan.migration.observed import (
    LOG_ANNOTATION,
    MIGRATED_ANNOTATION,
    STORE_ANNOTATION,
    ObservedMigration,
    OldBrokerKind,
    OldMember,
    VolumeHolder,
)
from rocketmq_operator.plan.migration.stores import part_to_keep, prepare_title
from rocketmq_operator.plan.migration.writes import (
    CreateObject,
    RunPod,
    Write,
    bind_volume,
    create_claim,
    record_brokers,
    release_volume,
    scale_stateful_sets,
    write_annotation,
)


@dataclass(frozen=True, slots=True)
class StepAction:
    """What a step that is not done does now: at most one of these is there.

    Attributes:
        obstacle: the obstacle that does not pass by itself.
        wait: the reason to wait.
        writes: the next writes, in this order.
    """

    obstacle: str = ""
    wait: str = ""
    writes: tuple[Write, ...] = ()


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One row of the table."""

    name: str
    title: Callable[[ObservedMigration], str]
    is_done: Callable[[ObservedMigration], bool]
    action: Callable[[ObservedMigration], StepAction]


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """Where a migration stands.

    Attributes:
        steps: name, title and whether it is done, of each.
        step: the next one; empty when all are done.
        action: what it does now.
    """

    steps: tuple[tuple[str, str, bool], ...]
    step: str = ""
    title: str = ""
    action: StepAction = StepAction()


def migration_plan(observed: ObservedMigration) -> MigrationPlan:
    """Return the steps, the next one, and what it does now."""
    table = [step for step in STEPS if _is_applicable(step, observed)]
    following = next(
        (step for step in table if not observed.is_migrated and not step.is_done(observed)), None
    )
    completed = table if following is None else table[: table.index(following)]
    steps = tuple((step.name, step.title(observed), step in completed) for step in table)
    if following is None:
        return MigrationPlan(steps)
    action = StepAction(obstacle) if (obstacle := _lost_volume(observed)) else following.action(observed)
    return MigrationPlan(steps, following.name, following.title(observed), action)


def _lost_volume(observed: ObservedMigration) -> str:
    """Say which volume of a stopped broker is gone, or somebody else's."""
    for member in observed.members:
        if member.record is not None and member.live is None and member.holder is VolumeHolder.OTHER:
            return (
                f"volume {member.record.volume} of {member.pod} is gone, or of another claim than "
                f"{member.record.claim}"
            )
    return ""


def _is_applicable(step: MigrationStep, observed: ObservedMigration) -> bool:
    return step.name != "compare" or observed.request.old_kind is OldBrokerKind.MASTER_SLAVE


def _pods(members: tuple[OldMember, ...]) -> str:
    return ", ".join(member.pod for member in members)


def _addresses(observed: ObservedMigration) -> list[str]:
    return [f"{one.address}:{observed.request.port}" for one in observed.surveyed if one.address]


def _is_closed(observed: ObservedMigration) -> bool:
    if observed.first.record is not None and not observed.first.runs:
        return True
    running = [member for member in observed.surveyed if member.runs]
    return bool(running) and all(
        member.report is not None and not member.report.takes_writes for member in running
    )


def _close(observed: ObservedMigration) -> StepAction:
    if obstacle := creation_obstacle(observed) or old_broker_problem(observed):
        return StepAction(obstacle)
    body = migration_pods.permission_pod(observed, "read", _addresses(observed))
    return StepAction(writes=(RunPod(body, "forbid writes"),))


def _is_stopped(observed: ObservedMigration) -> bool:
    if any(member.holder in {VolumeHolder.HELD, VolumeHolder.NEW} for member in observed.members):
        return True
    return all(
        member.live is None and member.record is not None and not member.is_wanted
        for member in observed.members
    )


def _stop(observed: ObservedMigration) -> StepAction:
    if obstacle := creation_obstacle(observed):
        return StepAction(obstacle)
    first = observed.first
    if first.runs:
        if obstacle := old_broker_problem(observed):
            return StepAction(obstacle)
        if wait := why_not_stoppable(observed):
            return StepAction(wait=wait)
        stale = [
            write_annotation(
                "PersistentVolume", member.volume, LOG_ANNOTATION, None, "forget an older look at it"
            )
            for member in observed.members
            if member.log is not None
        ]
        return StepAction(
            writes=(*stale, *record_brokers(observed), *scale_stateful_sets(observed, (first,), 0))
        )
    if unknown := [member for member in observed.members if member.record is None]:
        return StepAction(
            f"{unknown[0].pod} does not run, and nothing was noted of it while it did: start it again"
        )
    if first.live is not None:
        return StepAction(wait=f"{first.pod} has not gone yet")
    if left := [member for member in observed.members if member.is_wanted]:
        return StepAction(writes=scale_stateful_sets(observed, tuple(left), 0))
    return StepAction(
        wait=f"{_pods(tuple(one for one in observed.members if one.live is not None))} has not gone yet"
    )


def _is_compared(observed: ObservedMigration) -> bool:
    return all(
        member.log is not None or member.store is not None or member.holder is not VolumeHolder.OLD
        for member in observed.surveyed
    )


def _compare(observed: ObservedMigration) -> StepAction:
    writes = []
    for member in observed.surveyed:
        record = member.record
        if record is not None and member.log is None:
            body = migration_pods.verify_pod(observed, member, record)
            writes.append(
                RunPod(body, f"look at every record of {member.pod}", record.volume, LOG_ANNOTATION, (0, 1))
            )
    return StepAction(writes=tuple(writes))


def _is_prepared(observed: ObservedMigration) -> bool:
    return all(member.store is not None or member.holder is VolumeHolder.NEW for member in observed.members)


def _prepare(observed: ObservedMigration) -> StepAction:
    if obstacle := master_log_problem(observed):
        return StepAction(obstacle)
    writes = []
    for member in observed.members:
        record = member.record
        if record is not None and member.store is None and member.holder is VolumeHolder.OLD:
            keep = part_to_keep(observed, member)
            body = migration_pods.adopt_pod(observed, member, record, keep)
            writes.append(RunPod(body, f"{keep} the store of {member.pod}", record.volume, STORE_ANNOTATION))
    return StepAction(writes=tuple(writes))


def _is_volume_handed_over(observed: ObservedMigration) -> bool:
    others = all(
        member.holder in {VolumeHolder.HELD, VolumeHolder.NEW} and member.new_claim is not None
        for member in observed.others
    )
    return observed.first.has_joined and others and all(one.old_claim is None for one in observed.members)


def _hand_over_volume(observed: ObservedMigration) -> StepAction:
    writes: list[Write] = []
    for member in observed.members:
        writes += release_volume(member)
    if writes:
        return StepAction(writes=tuple(writes))
    for member in observed.members:
        writes += create_claim(observed, member)
    if writes:
        return StepAction(writes=tuple(writes))
    if left := [member for member in observed.members if member.old_claim is not None]:
        return StepAction(wait=f"the claim of {_pods(tuple(left))} has not gone yet")
    return _bind_volumes(observed.members[:1])


def _bind_volumes(members: tuple[OldMember, ...]) -> StepAction:
    """Return what binds volumes to their new claims, and puts their policies back then."""
    writes: list[Write] = []
    for member in members:
        writes += bind_volume(member)
    unbound = [names.claim(member.member) for member in members if not member.has_joined]
    return (
        StepAction(writes=tuple(writes))
        if writes
        else StepAction(wait=f"{', '.join(unbound)} is not bound yet")
    )


def _create(observed: ObservedMigration) -> StepAction:
    if obstacle := creation_obstacle(observed):
        return StepAction(obstacle)
    return StepAction(writes=(CreateObject(observed.request.manifest, "as it is asked for"),))


def _is_new_master(observed: ObservedMigration) -> bool:
    if any(member.holder is VolumeHolder.NEW for member in observed.others):
        return True
    return observed.status.master.name == observed.first.member


def _await_new_master(observed: ObservedMigration) -> StepAction:
    if (master := observed.status.master.name) and master != observed.first.member:
        return StepAction(
            f"{master} is master, and not {observed.first.member}, which has the old master's volume"
        )
    return StepAction(wait=_operator_wait(observed) or f"{observed.first.member} is not master yet")


def _operator_wait(observed: ObservedMigration) -> str:
    waiting = observed.status.plan.waiting_for
    return f"the operator waits: {waiting}" if waiting else ""


def _is_ready(observed: ObservedMigration) -> bool:
    ready = next((one for one in observed.status.conditions if one.type == "Ready"), None)
    return ready is not None and ready.status == "True"


def _prove(observed: ObservedMigration) -> StepAction:
    report = observed.new_master_report
    if report is None:
        return StepAction(wait=f"{observed.first.member} has not answered yet")
    if obstacle := missing_at_new_master(observed, report):
        return StepAction(obstacle)
    text = (
        f"{report.topics} topics, {report.groups} groups, {report.offsets} offsets, log "
        f"[{report.min_offset}, {report.max_offset})"
    )
    return StepAction(
        writes=(write_annotation("BrokerGroup", observed.group, MIGRATED_ANNOTATION, text, f"it has {text}"),)
    )


STEPS: Final[tuple[MigrationStep, ...]] = (
    MigrationStep(
        "close", lambda observed: f"forbid writes to {_pods(observed.surveyed)}", _is_closed, _close
    ),
    MigrationStep(
        "stop",
        lambda observed: (
            f"stop {_pods(observed.members[:1])}"
            + (f", then {_pods(observed.others)}" if observed.others else "")
        ),
        _is_stopped,
        _stop,
    ),
    MigrationStep(
        "compare",
        lambda observed: f"check every record of {_pods(observed.surveyed)}",
        _is_compared,
        _compare,
    ),
    MigrationStep("prepare", prepare_title, _is_prepared, _prepare),
    MigrationStep(
        "hand",
        lambda observed: (
            f"give the volume of {observed.first.pod} to {observed.first.member}"
            + (", and keep the others back until that is master" if observed.others else "")
        ),
        _is_volume_handed_over,
        _hand_over_volume,
    ),
    MigrationStep(
        "create",
        lambda observed: f"create BrokerGroup {observed.request.group}",
        lambda observed: observed.group is not None,
        _create,
    ),
    MigrationStep(
        "lead",
        lambda observed: f"wait until {observed.first.member} is master",
        _is_new_master,
        _await_new_master,
    ),
    MigrationStep(
        "join",
        lambda observed: (
            "; ".join(f"give the volume of {one.pod} to {one.member}" for one in observed.others)
            or "there are no others"
        ),
        lambda observed: all(one.has_joined for one in observed.others),
        lambda observed: _bind_volumes(observed.others),
    ),
    MigrationStep(
        "ready",
        lambda observed: f"wait until {observed.request.group} is Ready",
        _is_ready,
        lambda observed: StepAction(
            wait=_operator_wait(observed) or f"{observed.request.group} is not Ready yet"
        ),
    ),
    MigrationStep(
        "prove",
        lambda observed: f"check that {observed.first.member} has all that {observed.first.pod} had",
        lambda observed: observed.is_migrated,
        _prove,
    ),
)
