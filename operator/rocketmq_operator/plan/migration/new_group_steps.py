"""The steps of a migration that create the BrokerGroup, and wait until it has all that the old group had."""

from typing import Final

from rocketmq_operator.plan.migration.checks import (
    creation_obstacle,
    missing_at_new_master,
)
from rocketmq_operator.plan.migration.observed import (
    MIGRATED_ANNOTATION,
    ObservedMigration,
    VolumeHolder,
)
from rocketmq_operator.plan.migration.old_group_steps import bind_volumes
from rocketmq_operator.plan.migration.step_types import MigrationStep, StepAction
from rocketmq_operator.plan.migration.writes import (
    CreateObject,
    write_annotation,
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


NEW_GROUP_STEPS: Final[tuple[MigrationStep, ...]] = (
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
        lambda observed: bind_volumes(observed.others),
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
