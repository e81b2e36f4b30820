"""The way back of a migration, from anywhere before a store was prepared: everything is as it was then, and runs.

    start    every old StatefulSet has as many pods as were noted
    run      each old broker answers
    open     each announces that it takes messages
    forget   nothing is noted on StatefulSets and volumes

From `prepare` on the new brokers own the stores and undo is impossible: the migration must continue.
"""

from typing import Final

from rocketmq_operator.plan.migration import pods as migration_pods
from rocketmq_operator.plan.migration.observed import (
    LOG_ANNOTATION,
    NOTE_ANNOTATION,
    Holder,
    ObservedMigration,
    noted,
    set_of,
)
from rocketmq_operator.plan.migration.steps import MigrationPlan, MigrationStep, Turn
from rocketmq_operator.plan.migration.writes import Task, Write, annotated, scaled


def undo_plan(observed: ObservedMigration) -> MigrationPlan:
    """Return the steps back, the next one, and what it does now."""
    following = next((step for step in STEPS if not step.is_done(observed)), None)
    before = STEPS if following is None else STEPS[: STEPS.index(following)]
    steps = tuple((step.name, step.title(observed), step in before) for step in STEPS)
    if following is None:
        return MigrationPlan(steps)
    turn = Turn(way) if (way := _too_late(observed)) else following.turn(observed)
    return MigrationPlan(steps, following.name, following.title(observed), turn)


def _too_late(observed: ObservedMigration) -> str:
    for member in observed.members:
        if member.stateful_set is None:
            return f"StatefulSet {set_of(member.pod)} does not exist"
        if member.store is not None or member.holder in {Holder.HELD, Holder.NEW}:
            return f"the store of {member.pod} is prepared for {member.member} already: undo is impossible, continue without --undo"
    return ""


def _is_started(observed: ObservedMigration) -> bool:
    wanted = [noted(member.stateful_set).get("replicas", 0) for member in observed.members]
    has = [(member.stateful_set or {}).get("spec", {}).get("replicas", 0) for member in observed.members]
    return all(now >= before for now, before in zip(has, wanted, strict=True))


def _runs(observed: ObservedMigration) -> bool:
    return all(member.live is not None and member.said is not None for member in observed.asked)


def _run(observed: ObservedMigration) -> Turn:
    silent = [one for one in observed.asked if one.live is None or one.said is None]
    return Turn(wait=f"{silent[0].pod} does not answer yet: {silent[0].silence or 'it does not run'}")


def _is_open(observed: ObservedMigration) -> bool:
    return all(one.said is not None and one.said.takes_writes for one in observed.asked)


def _open(observed: ObservedMigration) -> Turn:
    addresses = [f"{one.address}:{observed.wish.port}" for one in observed.asked if one.address]
    return Turn(writes=(Task(migration_pods.permission(observed, "write", addresses), "allow writes"),))


def _forget(observed: ObservedMigration) -> Turn:
    writes: list[Write] = [
        annotated("PersistentVolume", one.volume, LOG_ANNOTATION, None, "forget what its log held")
        for one in observed.members
        if one.log is not None
    ]
    sets = {set_of(one.pod): one.stateful_set for one in observed.members if noted(one.stateful_set)}
    writes += [
        annotated("StatefulSet", live, NOTE_ANNOTATION, None, "forget who ran there")
        for live in sets.values()
    ]
    return Turn(writes=tuple(writes))


STEPS: Final[tuple[MigrationStep, ...]] = (
    MigrationStep(
        "start",
        lambda seen: "start " + ", ".join(one.pod for one in seen.members),
        _is_started,
        lambda seen: Turn(writes=scaled(seen, seen.members, None)),
    ),
    MigrationStep("run", lambda _: "wait until they answer", _runs, _run),
    MigrationStep("open", lambda _: "allow writes", _is_open, _open),
    MigrationStep(
        "forget",
        lambda _: "forget what was noted",
        lambda seen: not any(one.log is not None or noted(one.stateful_set) for one in seen.members),
        _forget,
    ),
)
