"""The way back of a migration, from anywhere before a store was prepared.

Afterwards everything is as it was then, and runs.

    start    every old StatefulSet has as many pods as were noted
    run      each old broker answers
    open     each announces that it takes messages
    forget   nothing is noted on StatefulSets and volumes

From `prepare` on the new brokers own the stores and undo is impossible: the migration must continue.
"""

from typing import Final

from controller_core.remoting.host_port import join_host_port
from rocketmq_operator.plan.migration import pods as migration_pods
from rocketmq_operator.plan.migration.observed import (
    LOG_ANNOTATION,
    NOTE_ANNOTATION,
    ObservedMigration,
    VolumeHolder,
    recorded_pods,
    stateful_set_of,
)
from rocketmq_operator.plan.migration.step_types import MigrationPlan, MigrationStep, StepAction
from rocketmq_operator.plan.migration.writes import RunPod, Write, scale_stateful_sets, write_annotation


def undo_plan(observed: ObservedMigration) -> MigrationPlan:
    """Return the steps back, the next one, and what it does now."""
    following = next((step for step in STEPS if not step.is_done(observed)), None)
    completed = STEPS if following is None else STEPS[: STEPS.index(following)]
    steps = tuple((step.name, step.title(observed), step in completed) for step in STEPS)
    if following is None:
        return MigrationPlan(steps)
    action = StepAction(obstacle) if (obstacle := _why_too_late(observed)) else following.action(observed)
    return MigrationPlan(steps, following.name, following.title(observed), action)


def _why_too_late(observed: ObservedMigration) -> str:
    for member in observed.members:
        if member.stateful_set is None:
            return f"StatefulSet {stateful_set_of(member.pod)} does not exist"
        if member.store is not None or member.holder in {VolumeHolder.HELD, VolumeHolder.NEW}:
            return (
                f"the store of {member.pod} is prepared for {member.member} already: undo is impossible, "
                "continue without --undo"
            )
    return ""


def _is_started(observed: ObservedMigration) -> bool:
    wanted = [recorded_pods(member.stateful_set).get("replicas", 0) for member in observed.members]
    has = [(member.stateful_set or {}).get("spec", {}).get("replicas", 0) for member in observed.members]
    return all(now >= before for now, before in zip(has, wanted, strict=True))


def _runs(observed: ObservedMigration) -> bool:
    return all(member.live is not None and member.report is not None for member in observed.surveyed)


def _run(observed: ObservedMigration) -> StepAction:
    silent = [one for one in observed.surveyed if one.live is None or one.report is None]
    return StepAction(
        wait=f"{silent[0].pod} does not answer yet: {silent[0].no_report_reason or 'it does not run'}"
    )


def _is_open(observed: ObservedMigration) -> bool:
    return all(one.report is not None and one.report.takes_writes for one in observed.surveyed)


def _open(observed: ObservedMigration) -> StepAction:
    addresses = [
        join_host_port(one.address, observed.request.port) for one in observed.surveyed if one.address
    ]
    return StepAction(
        writes=(RunPod(migration_pods.permission_pod(observed, "write", addresses), "allow writes"),)
    )


def _remove_records(observed: ObservedMigration) -> StepAction:
    writes: list[Write] = [
        write_annotation("PersistentVolume", one.volume, LOG_ANNOTATION, None, "forget what its log held")
        for one in observed.members
        if one.log is not None
    ]
    sets = {
        stateful_set_of(one.pod): one.stateful_set
        for one in observed.members
        if recorded_pods(one.stateful_set)
    }
    writes += [
        write_annotation("StatefulSet", live, NOTE_ANNOTATION, None, "forget who ran there")
        for live in sets.values()
    ]
    return StepAction(writes=tuple(writes))


STEPS: Final[tuple[MigrationStep, ...]] = (
    MigrationStep(
        "start",
        lambda observed: "start " + ", ".join(one.pod for one in observed.members),
        _is_started,
        lambda observed: StepAction(writes=scale_stateful_sets(observed, observed.members, None)),
    ),
    MigrationStep("run", lambda _: "wait until they answer", _runs, _run),
    MigrationStep("open", lambda _: "allow writes", _is_open, _open),
    MigrationStep(
        "forget",
        lambda _: "forget what was noted",
        lambda observed: (
            not any(one.log is not None or recorded_pods(one.stateful_set) for one in observed.members)
        ),
        _remove_records,
    ),
)
