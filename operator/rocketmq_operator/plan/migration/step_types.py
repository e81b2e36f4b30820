"""A step of a migration, what it does next, and a plan made of steps."""

from collections.abc import Callable
from dataclasses import dataclass

from rocketmq_operator.plan.migration.observed import (
    ObservedMigration,
    OldMember,
)
from rocketmq_operator.plan.migration.writes import (
    Write,
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


def pod_names(members: tuple[OldMember, ...]) -> str:
    """Return the members' pods, separated by commas."""
    return ", ".join(member.pod for member in members)
