"""User: an application's name, password and rights, in the broker groups of a cluster.

A broker reads the address of a client up to the first colon, so rights know IPv4 only. Source: RocketMQ 5.5.0
UserType.java, UserStatus.java, Resource.java, Action.java, Decision.java.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel, StatusModel, kept_by
from rocketmq_operator.api.common import DeletionPolicy, ObjectName
from rocketmq_operator.api.metadata import (
    ClusterName,
    DriftPolicy,
    GroupNames,
    MetadataStatus,
    unchangeable_name,
)

USERNAME_LENGTH_MAX: Final = 64
RIGHTS_MAX: Final = 64
SOURCE_IPS_MAX: Final = 16
OWN_USER_PREFIX: Final = "rocketmq-ha"
"""Users that the operator makes for itself and for the members have names like this."""
_USERNAME_PATTERN: Final = r"^[A-Za-z0-9][-A-Za-z0-9_.@]*$"
_RESOURCE_PATTERN: Final = r"^([*]|(Topic|Group|Cluster):([*]|[-%|A-Za-z0-9_]+[*]?))$"
_RESOURCE_LENGTH_MAX: Final = 136
"""`Cluster:`, a name of at most 127 characters, and an asterisk."""
_OCTET: Final = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_SOURCE_PATTERN: Final = rf"^{_OCTET}([.]{_OCTET}){{3}}(/(3[0-2]|[12]?[0-9]))?$"
_KEY_PATTERN: Final = r"^[-._A-Za-z0-9]+$"


class UserType(StrEnum):
    """Whether rights decide what a user may do."""

    NORMAL = "Normal"
    """The user may do what its rights allow."""
    SUPER = "Super"
    """The user may do everything."""


class RightAction(StrEnum):
    """What a right is about, in RocketMQ's words."""

    PUB = "Pub"
    SUB = "Sub"
    CREATE = "Create"
    UPDATE = "Update"
    DELETE = "Delete"
    GET = "Get"
    LIST = "List"
    ALL = "All"


class RightDecision(StrEnum):
    """What a right does."""

    ALLOW = "Allow"
    DENY = "Deny"


class UserRight(SpecModel):
    """What a user may do, or must not do, with one resource."""

    resource: Annotated[str, Field(min_length=1, max_length=_RESOURCE_LENGTH_MAX, pattern=_RESOURCE_PATTERN)]
    """`Topic:orders`, `Group:order-readers` or `Cluster:main`; with `*` at the end all whose names begin so;
    `*` alone everything."""
    actions: Annotated[
        tuple[RightAction, ...],
        Field(min_length=1, max_length=len(RightAction), json_schema_extra={"x-kubernetes-list-type": "set"}),
    ]
    """Pub, Sub, Create, Update, Delete, Get, List or All. Producers need Pub on the topic; consumers need Sub
    and Get on the topic, and Sub on their group."""
    source_ips: Annotated[
        tuple[Annotated[str, Field(max_length=18, pattern=_SOURCE_PATTERN)], ...],
        Field(max_length=SOURCE_IPS_MAX, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()
    """IPv4 addresses or networks of clients for which this right counts; any when empty."""
    decision: RightDecision = RightDecision.ALLOW
    """Allow or Deny. Of several rights that fit, the one with the most exact resource counts."""


class PasswordSecret(SpecModel):
    """A key of a Secret of this namespace."""

    name: ObjectName
    """Of the Secret. The chart must list it in `operator.userSecrets`."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=_KEY_PATTERN)] = "password"
    """The key whose value is the password: one line of at most 256 printable characters."""


_OWN_USER = Rule(
    name="SystemName",
    expression=f"!has(self.username) || !self.username.startsWith('{OWN_USER_PREFIX}')",
    message="'username is ' + self.username + ': the operator has names like this for itself'",
    holds=lambda spec: spec.username is None or not spec.username.startswith(OWN_USER_PREFIX),
    problem=lambda spec: f"username is {spec.username}: the operator has names like this for itself",
)
_RIGHTS_OF_SUPER = Rule(
    name="RightsOfSuper",
    expression="self.type != 'Super' || self.rights.size() == 0",
    message="'type is %s with %d rights: a super user may do everything; take type Normal, or no rights'"
    ".format([self.type, self.rights.size()])",
    holds=lambda spec: spec.type is not UserType.SUPER or not spec.rights,
    problem=lambda spec: (
        f"type is {spec.type} with {len(spec.rights)} rights: a super user may do everything; take type "
        "Normal, or no rights"
    ),
)


class UserSpec(SpecModel):
    """What a person asks of a user."""

    RULES: ClassVar[tuple[Rule, ...]] = (_OWN_USER, unchangeable_name("username"), _RIGHTS_OF_SUPER)

    cluster: ClusterName
    """Name of a RocketMQCluster of this namespace. Cannot change."""
    username: (
        Annotated[str, Field(min_length=1, max_length=USERNAME_LENGTH_MAX, pattern=_USERNAME_PATTERN)] | None
    ) = None
    """Its name in RocketMQ, which clients give as access key; metadata.name when absent. Cannot change."""
    broker_groups: GroupNames = ()
    """BrokerGroups of the cluster that know the user; all, later ones too, when empty. One that is taken out
    of the list keeps it."""
    type: UserType = UserType.NORMAL
    """Normal: the rights decide; or Super: it may do everything, also make users."""
    enabled: bool = True
    """Whether brokers accept the user at all."""
    password_secret: PasswordSecret | None = None
    """Where its password is. Absent: the operator makes a password, in the Secret <metadata.name>-user."""
    rights: Annotated[
        tuple[UserRight, ...], Field(max_length=RIGHTS_MAX, json_schema_extra=kept_by("resource"))
    ] = ()
    """What it may do. Without any, brokers with authorization refuse all that it asks."""
    drift_policy: DriftPolicy = DriftPolicy.CORRECT
    """The operator's reaction when another client changes it in a broker: Correct or Report. If a broker
    lacks it, the operator creates it in either case."""
    deletion_policy: DeletionPolicy = DeletionPolicy.DELETE
    """Whether brokers keep the user, and Kubernetes the Secret that the operator made, when this object is
    deleted: Retain or Delete."""

    def name_in_brokers(self, object_name: str) -> str:
        """Return the user's name."""
        return self.username or object_name


class SecretBinding(StatusModel):
    """Where an application finds all that it needs to connect."""

    name: Annotated[str, Field(max_length=253)]
    """The Secret, in the layout of servicebinding.io: type, provider, host, port, uri, username, password."""


class UserStatus(MetadataStatus):
    """What the operator says of a User."""

    binding: SecretBinding | None = None
    """The Secret that the operator made for applications; absent with a password of your own."""
