"""The name servers and controllers of a RocketMQCluster: its own, another's, or external."""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import KEPT_WHOLE, Rule, SpecModel, sets_only
from rocketmq_operator.api.common import (
    CLUSTER_NAME_PATTERN,
    NAME_LENGTH_MAX,
    LostMembers,
    Properties,
    Resources,
    StorageSpec,
)
from rocketmq_operator.api.pods.jvm import Jvm
from rocketmq_operator.api.pods.settings import PodOverride, PodSettings
from rocketmq_operator.api.rules import harmful_keys, owned_keys, plain_properties

CONTROLLER_COUNTS = (1, 3, 5)
NODE_TIMEOUT_MS_DEFAULT = 500
"""The controllers' own default."""
ALLOWED_NAMESPACES_MAX: Final = 32
USERS_MAX: Final = 64
"""Of the clusters that use the controllers of another."""
NAME_SERVERS_MAX: Final = 8
OWNED_NAME_SERVER_KEYS: Final = ("listenPort",)
"""Keys of namesrv.conf that the operator writes itself."""
HARMFUL_NAME_SERVER_KEYS: Final = {
    "configStorePath": "names a file that a name server writes, in a pod that keeps nothing",
    "enableControllerInNamesrv": "starts a controller of RocketMQ beside those of the operator",
    "kvConfigPath": "names a file that a name server writes, in a pod that keeps nothing",
    "rocketmqHome": "moves the home that the start script gives",
}
"""Keys of namesrv.conf that break what the operator runs, and why. Source: NamesrvConfig.java 5.5.0."""
Namespace = Annotated[str, Field(max_length=NAME_LENGTH_MAX, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
HostAndPort = Annotated[
    str,
    Field(
        max_length=259, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$"
    ),
]
"""A host name, an IPv4 address or an IPv6 address in brackets, and a port."""


class NameServersSpec(SpecModel):
    """The name servers: what clients ask for routes. They keep nothing on disk."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="SettingsWithoutUse",
            expression="!has(self.external) || self.external.size() == 0 || (self.replicas == 2 && "
            "!has(self.jvm) && !has(self.pod) && !has(self.podOverride) && self.config.size() == 0)",
            message="'nameServers.external names %d name servers: the operator makes none, so remove "
            "replicas, jvm, pod, podOverride and config'.format([self.external.size()])",
            holds=lambda spec: not spec.external or sets_only(spec, "external"),
            problem=lambda spec: (
                f"nameServers.external names {len(spec.external)} name servers: the operator makes none, so "
                "remove replicas, jvm, pod, podOverride and config"
            ),
            reason="FieldValueForbidden",
        ),
        Rule(
            name="Unchangeable",
            expression="(has(self.external) && self.external.size() > 0) == "
            "(has(oldSelf.external) && oldSelf.external.size() > 0)",
            message="'nameServers.external cannot change from %d to %d name servers: brokers and clients "
            "have the addresses of the former ones; make another cluster'"
            ".format([has(oldSelf.external) ? oldSelf.external.size() : 0, "
            "has(self.external) ? self.external.size() : 0])",
            reason="FieldValueForbidden",
        ),
        plain_properties("nameServers.config"),
        owned_keys("nameServers.config", OWNED_NAME_SERVER_KEYS),
        harmful_keys("nameServers.config", HARMFUL_NAME_SERVER_KEYS),
    )

    external: Annotated[
        tuple[HostAndPort, ...], Field(max_length=NAME_SERVERS_MAX, json_schema_extra=KEPT_WHOLE)
    ] = ()
    """Name servers that somebody else runs, host:port each: the operator then makes none. Any release from
    4.9 on. The addresses may change, which restarts the brokers one after another."""
    replicas: Annotated[int, Field(ge=1, le=5)] = 2
    """How many. One more than may fail."""
    resources: Resources = Resources(cpu="250m", memory="1Gi")
    """Of each name server."""
    jvm: Jvm | None = None
    """Of each name server."""
    pod: PodSettings | None = None
    """Of their pods."""
    pod_override: PodOverride | None = None
    """Laid over their pods."""
    config: Properties = Field(default={})
    """Further keys of namesrv.conf: a letter, then letters and digits. A change restarts the name servers,
    one at a time."""


class ControllersRef(SpecModel):
    """A RocketMQCluster whose controllers another one uses."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX, pattern=CLUSTER_NAME_PATTERN)]
    """Its name, another one than that of the cluster that uses its controllers."""
    namespace: Namespace | None = None
    """Its namespace, which must allow this one in `controllers.allowedNamespaces`; absent: the same."""


class ControllersSpec(SpecModel):
    """The controllers: who elects masters."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="EvenControllers",
            expression="self.replicas in [1, 3, 5]",
            message="'controllers.replicas is %d: it must be 1, 3 or 5, so that a majority is clear'"
            ".format([self.replicas])",
            holds=lambda spec: spec.replicas in CONTROLLER_COUNTS,
            problem=lambda spec: f"controllers.replicas is {spec.replicas}: it must be 1, 3 or 5",
        ),
        Rule(
            name="SettingsOfOthers",
            expression="!has(self.ref) || (self.replicas == 3 && self.storage.size == '10Gi' && "
            "!has(self.storage.storageClassName) && !self.enableElectUncleanMaster && "
            "self.notifyBrokerRoleChanged && !has(self.pod) && !has(self.podOverride) && "
            "(!has(self.allowedNamespaces) || self.allowedNamespaces.size() == 0))",
            message="'controllers.ref names the controllers of ' + self.ref.name + ': set their other fields "
            "there'",
            holds=lambda spec: spec.ref is None or sets_only(spec, "ref", "resources", "lost_members"),
            problem=lambda spec: (
                f"controllers.ref names the controllers of {spec.ref.name}: set their other fields there"
            ),
            reason="FieldValueForbidden",
        ),
        Rule(
            name="Unchangeable",
            expression="has(self.ref) == has(oldSelf.ref) && (!has(self.ref) || self.ref == oldSelf.ref)",
            message="'controllers.ref cannot change from ' + (has(oldSelf.ref) ? oldSelf.ref.name : 'none') "
            "+ ' to ' + (has(self.ref) ? self.ref.name : 'none') + ': other controllers do not know the "
            "masters and epochs of this cluster; make another cluster'",
            reason="FieldValueForbidden",
        ),
    )

    replicas: Annotated[int, Field(ge=1, le=5)] = 3
    """How many: 1, 3 or 5. May change: controllers come and go one at a time, and the volume of one that goes
    is deleted."""
    storage: StorageSpec = StorageSpec(size="10Gi")
    """Volume of each controller: its log and snapshots."""
    resources: Resources = Resources(cpu="250m", memory="512Mi")
    """Of each controller."""
    enable_elect_unclean_master: bool = False
    """Whether a broker outside the SyncStateSet may become master if no member of the set can. Acknowledged
    messages are then lost. Log replicas are not elected either way."""
    notify_broker_role_changed: bool = True
    """Whether controllers tell brokers of a new master at once. Without it brokers learn it with their next
    poll, 1 s later by default."""
    pod: PodSettings | None = None
    """Of their pods."""
    pod_override: PodOverride | None = None
    """Laid over their pods."""
    lost_members: LostMembers = LostMembers()
    """What becomes of a controller whose node is gone for good."""
    ref: ControllersRef | None = None
    """Another cluster whose controllers this one uses: the operator then makes none. Cannot change."""
    allowed_namespaces: Annotated[
        tuple[Namespace, ...],
        Field(max_length=ALLOWED_NAMESPACES_MAX, json_schema_extra=KEPT_WHOLE),
    ] = ()
    """Other namespaces whose clusters may use these controllers. Removing one ends no use that has begun."""


class NodeFailover(SpecModel):
    """When the controllers declare a node lost, if node agents run."""

    node_timeout_ms: Annotated[int, Field(ge=0, le=60_000)] = NODE_TIMEOUT_MS_DEFAULT
    """Silence of a node's agent and of a broker on that node after which the node is lost, in milliseconds. 0
    turns the rule off. A broker that is silent alone has its group's `failover.heartbeatTimeoutMs`."""
