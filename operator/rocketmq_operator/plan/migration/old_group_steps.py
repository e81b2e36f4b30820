"""The steps of a migration up to the new BrokerGroup: they close, stop and compare the old brokers.

Then they prepare the volumes and hand them over. `steps` says why in this order.
"""

from typing import Final

from controller_core.remoting.host_port import join_host_port
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.migration import pods as migration_pods
from rocketmq_operator.plan.migration.checks import (
    creation_obstacle,
    master_log_problem,
    old_broker_problem,
    why_not_stoppable,
)
from rocketmq_operator.plan.migration.observed import (
    LOG_ANNOTATION,
    STORE_ANNOTATION,
    ObservedMigration,
    OldMember,
    VolumeHolder,
)
from rocketmq_operator.plan.migration.step_types import MigrationStep, StepAction, pod_names
from rocketmq_operator.plan.migration.stores import part_to_keep, prepare_title
from rocketmq_operator.plan.migration.writes import (
    RunPod,
    Write,
    bind_volume,
    create_claim,
    record_brokers,
    release_volume,
    scale_stateful_sets,
    write_annotation,
)


def _addresses(observed: ObservedMigration) -> list[str]:
    return [join_host_port(one.address, observed.request.port) for one in observed.surveyed if one.address]


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
        wait=f"{pod_names(tuple(one for one in observed.members if one.live is not None))} has not gone yet"
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
        return StepAction(wait=f"the claim of {pod_names(tuple(left))} has not gone yet")
    return bind_volumes(observed.members[:1])


def bind_volumes(members: tuple[OldMember, ...]) -> StepAction:
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


OLD_GROUP_STEPS: Final[tuple[MigrationStep, ...]] = (
    MigrationStep(
        "close", lambda observed: f"forbid writes to {pod_names(observed.surveyed)}", _is_closed, _close
    ),
    MigrationStep(
        "stop",
        lambda observed: (
            f"stop {pod_names(observed.members[:1])}"
            + (f", then {pod_names(observed.others)}" if observed.others else "")
        ),
        _is_stopped,
        _stop,
    ),
    MigrationStep(
        "compare",
        lambda observed: f"check every record of {pod_names(observed.surveyed)}",
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
)
