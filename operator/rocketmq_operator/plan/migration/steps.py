"""Migrate a broker group that predates controller mode to a BrokerGroup.

This module has the table; `old_group_steps` and `new_group_steps` have the steps with their completion
conditions and obstacles.

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

from typing import Final

from rocketmq_operator.plan.migration.new_group_steps import NEW_GROUP_STEPS
from rocketmq_operator.plan.migration.observed import (
    ObservedMigration,
    OldBrokerKind,
    VolumeHolder,
)
from rocketmq_operator.plan.migration.old_group_steps import OLD_GROUP_STEPS
from rocketmq_operator.plan.migration.step_types import MigrationPlan, MigrationStep, StepAction

STEPS: Final[tuple[MigrationStep, ...]] = (*OLD_GROUP_STEPS, *NEW_GROUP_STEPS)


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
