"""The observation of a Topic or a ConsumerGroup.

It has the object, older objects with its name, and its copies in the masters.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller_core.access.signing import Credentials
from rocketmq_operator.api.metadata import MetadataStatus
from rocketmq_operator.plan.common.objects import Json, Owner
from rocketmq_operator.plan.metadata.settings import MetadataSpec

DELETION_PATIENCE: Final = timedelta(minutes=10)
"""How long a deletion waits for brokers and name servers that do not answer, or refuse."""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """One broker group that should have it.

    Attributes:
        group: the BrokerGroup.
        exists: whether there is such a BrokerGroup of the cluster.
        paused: whether it, or the cluster, is paused.
        address: host:port of its master, empty if it is not known.
        problem: why its master could not be asked, empty if it answered.
        config: what its master has, as Java writes it; None if nothing, or if it was not asked.
    """

    group: str
    exists: bool = True
    paused: bool = False
    address: str = ""
    problem: str = ""
    config: Json | None = None

    @property
    def answered(self) -> bool:
        """Whether it is known what its master has."""
        return self.exists and not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMetadata:
    """A Topic or a ConsumerGroup and all that it concerns.

    Attributes:
        name: its name in the brokers.
        has_finalizer: whether our finalizer is on it.
        deleting_since: the time of its deletion request, None without one.
        older_owner: the older object that has the same name in the same cluster, empty if none exists.
        cluster_found: whether that RocketMQCluster exists.
        credentials: of the user that signs our requests to the brokers; None if they need none.
        groups: in the order of their names, or of the spec's.
        name_servers: host:port of each that has an address.
    """

    now: datetime
    owner: Owner
    generation: int
    spec: MetadataSpec
    status: MetadataStatus
    name: str
    has_finalizer: bool
    deleting_since: datetime | None
    older_owner: str
    cluster_found: bool
    credentials: Credentials | None = None
    groups: tuple[GroupMetadata, ...] = ()
    name_servers: tuple[str, ...] = ()

    @property
    def acted_on(self) -> bool:
        """Whether this generation was brought to every group before: what differs now is drift."""
        return self.applied_generation == self.generation

    @property
    def applied_generation(self) -> int:
        """The last generation that was brought to every group.

        A status of an older operator has it as its observed generation.
        """
        applied = self.status.applied_generation
        return self.status.observed_generation if applied is None else applied

    @property
    def is_overdue(self) -> bool:
        """Whether a deletion is so old that it no longer waits for silent peers."""
        return self.deleting_since is not None and self.now - self.deleting_since >= DELETION_PATIENCE
