"""Learners of a BrokerGroup: members that copy and are never counted nor elected."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel, StatusModel
from rocketmq_operator.api.common import Placement, Resources, StorageSpec

LEARNERS_MAX: Final = 3


class LearnerKind(StrEnum):
    """What a learner is."""

    BROKER = "Broker"
    """A broker, which clients may read from."""
    LOG_REPLICA = "LogReplica"
    """A log replica, which keeps the log only."""


class LearnersSpec(SpecModel):
    """Members that copy the log and are never counted nor elected, for instance in another region."""

    count: Annotated[int, Field(ge=0, le=LEARNERS_MAX)] = 0
    """How many."""
    kind: LearnerKind = LearnerKind.LOG_REPLICA
    """Broker or LogReplica. After a change new learners with new volumes replace the former ones."""
    storage: StorageSpec | None = None
    """Size and class of the volume of each; those of the group when absent. The rest of the group's `storage`
    holds for learners too, but volumeAttributesClassName only when this is absent."""
    placement: Placement | None = None
    """Where they run; as the group's members when absent."""
    resources: Resources | None = None
    """Of each; those of brokers or log replicas of the group when absent."""
    sync_from_last_file: bool = False
    """Whether a learner with an empty volume begins with the newest file of its master's log, and never gets
    older messages."""


class LearnerStatus(StatusModel):
    """One learner."""

    name: Annotated[str, Field(max_length=253)]
    """The pod's name."""
    broker_id: Annotated[int, Field(ge=0)] | None = None
    """Its id in the controllers."""
    ready: bool = False
    """Whether its pod is ready. A log replica is while it follows a master."""
    alive: bool = False
    """Whether the controllers hear from it."""
    lag_bytes: Annotated[int, Field(ge=0)] | None = None
    """As of a member."""


NO_LEARNERS_IN_A_QUORUM = Rule(
    name="QuorumWithLearners",
    expression="self.durability != 'Quorum' || self.learners.count == 0",
    message="'durability is Quorum with learners.count %d: a master counts the copy of a learner, which is "
    "never elected; set learners.count to 0 or take AllInSync'.format([self.learners.count])",
    holds=lambda spec: spec.durability != "Quorum" or spec.learners.count == 0,
    problem=lambda spec: (
        f"durability is Quorum with learners.count {spec.learners.count}: a master counts the copy of a "
        "learner, which is never elected; set learners.count to 0 or take AllInSync"
    ),
)
"""A Java master counts the acknowledgement of any connection that it needs copies from, a learner's too."""
