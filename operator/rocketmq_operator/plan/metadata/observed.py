"""The observation of a Topic, a ConsumerGroup or a User.

It has the object, older objects with its name, and its copies in the masters; of a User those in slaves too.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from controller_core.access.signing import Credentials
from rocketmq_operator.api.access.user import UserSpec
from rocketmq_operator.api.metadata import FieldDrift, MetadataStatus
from rocketmq_operator.plan.common.actions import Wait
from rocketmq_operator.plan.common.objects import Json, Owner
from rocketmq_operator.plan.metadata.accounts import account, account_differences
from rocketmq_operator.plan.metadata.settings import TableSpec, config_to_write, differences

MetadataSpec = TableSpec | UserSpec

DELETION_PATIENCE: Final = timedelta(minutes=10)
"""How long a deletion waits for brokers and name servers that do not answer, or refuse."""


@dataclass(frozen=True, slots=True)
class SlaveCopy:
    """What a slave has; only of users, which slaves do not get by RocketMQ's own means.

    Attributes:
        address: host:port of the slave, which answered.
        config: as of `GroupMetadata`.
    """

    address: str
    config: Json | None = field(repr=False)


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
        slaves: those that answered. A silent slave gets the users of its master before it is ready.
    """

    group: str
    exists: bool = True
    paused: bool = False
    address: str = ""
    problem: str = ""
    config: Json | None = field(default=None, repr=False)
    slaves: tuple[SlaveCopy, ...] = ()

    @property
    def copies(self) -> tuple[SlaveCopy, ...]:
        """What the master has, and then what the slaves have."""
        return (SlaveCopy(self.address, self.config), *self.slaves)

    @property
    def answered(self) -> bool:
        """Whether it is known what its master has."""
        return self.exists and not self.problem


@dataclass(frozen=True, slots=True)
class ObservedAccount:
    """What only a User has.

    Attributes:
        password: of its Secret; a new one if the operator has still to make that Secret.
        secret: the Secret that the operator has to write before brokers get the password, None for none.
        binding: the Secret for applications that the operator makes, empty with a password of somebody's own.
        problem: why brokers cannot get the user.
        has_rights: whether brokers look at rights; None if it was not looked up.
    """

    password: str = field(default="", repr=False)
    secret: Json | None = field(default=None, repr=False)
    binding: str = ""
    problem: Wait | None = None
    has_rights: bool | None = None


NO_ACCOUNT: Final = ObservedAccount()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedMetadata:
    """A Topic, a ConsumerGroup or a User and all that it concerns.

    Attributes:
        name: its name in the brokers.
        has_finalizer: whether our finalizer is on it.
        deleting_since: the time of its deletion request, None without one.
        older_owner: the older object that has the same name in the same cluster, empty if none exists.
        cluster_found: whether that RocketMQCluster exists.
        credentials: of the user that signs our requests to the brokers; None if they need none.
        groups: in the order of their names, or of the spec's.
        name_servers: host:port of each that has an address.
        account: of a User.
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
    account: ObservedAccount = NO_ACCOUNT

    def differences(self, config: Json) -> tuple[FieldDrift, ...]:
        """Return what a broker has otherwise than the spec, field by field."""
        if isinstance(self.spec, UserSpec):
            return account_differences(self.config_to_write(config), config)
        return differences(self.spec, config)

    def config_to_write(self, found: Json | None) -> Json:
        """Return the configuration that gives a broker, which has `found`, what the spec asks."""
        if isinstance(self.spec, UserSpec):
            return account(self.spec, self.name, self.account.password)
        return config_to_write(self.spec, self.name, found)

    @property
    def signs_for_all(self) -> bool:
        """Whether it is the user with which operator and members sign."""
        signer = self.credentials
        return isinstance(self.spec, UserSpec) and signer is not None and signer.username == self.name

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
