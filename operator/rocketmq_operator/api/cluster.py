"""RocketMQCluster: name servers, controllers and proxies that broker groups of a namespace share."""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import KEPT_WHOLE, Rule, SpecModel, StatusModel, kept_by
from rocketmq_operator.api.clusters.controllers import (
    CONTROLLER_COUNTS,
    USERS_MAX,
    ControllersSpec,
    NameServersSpec,
    NodeFailover,
)
from rocketmq_operator.api.clusters.ip_families import IP_FAMILY_RULES, IpFamilies, IpFamilyPolicy
from rocketmq_operator.api.clusters.tls import CERTIFICATE_DAYS_MAX, ClientsTls, InternalTls, TlsSpec
from rocketmq_operator.api.common import (
    NAME_LENGTH_MAX,
    LogLevel,
    LogTarget,
)
from rocketmq_operator.api.conditions import Conditions, ObservedGeneration
from rocketmq_operator.api.listeners import Listeners, ListenerStatuses, RouteFronts
from rocketmq_operator.api.proxy import Proxy, ProxyMode

VERSION_DEFAULT = "5.5.0"
IMAGE_LENGTH_MAX = 512
IMAGE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:/@-]*$"
"""A reference with registry, port, tag and digest, without white space."""
Image = Annotated[str, Field(min_length=1, max_length=IMAGE_LENGTH_MAX, pattern=IMAGE_PATTERN)]
Version = Annotated[str, Field(max_length=32, pattern=r"^5\.[0-9]+\.[0-9]+$")]
BY_ADDRESS_PREFIXES = ("5.0.", "5.1.0")
"""Versions whose controllers know members by address. 5.1.1 brought broker ids, and requests 1012 and 1013
for them."""
KEEP_FORMER_MINUTES_MAX: Final = 7 * 24 * 60
VERSION_PATTERN: Final = "^5[.]([3-9]|[1-9][0-9]+)[.]"
"""Versions of RocketMQ that have users (ACL 2.0): since 5.3.0. Source: RocketMQ 5.5.0 AuthConfig.java."""


class AuthenticationType(StrEnum):
    """How brokers know a client."""

    NONE = "None"
    """Not at all."""
    SIGNATURE = "Signature"
    """Each request carries a user's name and a signature made with the user's password."""


class AuthorizationType(StrEnum):
    """How brokers decide what a client may do."""

    NONE = "None"
    """Every known user may do everything."""
    SIMPLE = "Simple"
    """A user may do what its rights allow; a super user everything."""


class Authentication(SpecModel):
    """How brokers know a client."""

    type: AuthenticationType = AuthenticationType.NONE
    """None, or Signature: brokers refuse requests without a user's signature. The operator makes a super user
    for itself, for controllers, brokers and log replicas, in the Secret <cluster>-broker-credentials."""
    rotate_after_days: Annotated[int, Field(ge=1, le=CERTIFICATE_DAYS_MAX)] | None = None
    """After how many days the operator replaces this super user by another one with a new password. It
    restarts brokers and proxies, one at a time. Absent: only if a person asks for it."""
    keep_former_minutes: Annotated[int, Field(ge=2, le=KEEP_FORMER_MINUTES_MAX)] = 10
    """How long brokers know the former super user at least, for programs that follow the files of the
    Secret. Nodes bring a changed Secret to pods within about two minutes."""


class Authorization(SpecModel):
    """How brokers decide what a client may do."""

    type: AuthorizationType = AuthorizationType.NONE
    """None, or Simple: a user may do what its rights allow. Needs authentication."""


class Images(SpecModel):
    """Images, where they are not the public ones."""

    rocketmq: Image | None = None
    """Name servers, brokers and proxies; docker.io/apache/rocketmq of `version` when absent."""
    controller: Image = "rocketmq-ha/controller-core:0.1.0"
    """Controllers; has a shell and the command controller-core."""
    replica: Image = "rocketmq-ha/ha-sidecar:0.1.0"
    """Log replicas; has the command ha-sidecar."""


_CONTROLLERS_OF_OTHERS = Rule(
    name="SettingsOfOthers",
    expression="!has(self.controllers.ref) || (self.failover.nodeTimeoutMs == 500 && "
    "!has(self.tls.internal) && !has(self.tls.authority.secretName) && !has(self.tls.issuerRef) && "
    "self.tls.clients == 'Disabled')",
    message="'controllers.ref names the controllers of ' + self.controllers.ref.name + ': set "
    "failover.nodeTimeoutMs and tls there'",
    holds=lambda spec: (
        spec.controllers.ref is None
        or (
            spec.failover == NodeFailover()
            and spec.tls.internal is None
            and spec.tls.authority.secret_name is None
            and spec.tls.issuer_ref is None
            and spec.tls.clients is ClientsTls.DISABLED
        )
    ),
    problem=lambda spec: (
        f"controllers.ref names the controllers of {spec.controllers.ref.name}: set failover.nodeTimeoutMs "
        "and tls there"
    ),
    reason="FieldValueForbidden",
)
_CLIENTS_NEED_INTERNAL = Rule(
    name="ClientsWithoutInternal",
    expression="self.tls.clients == 'Disabled' || !has(self.tls.internal) || self.tls.internal != 'Disabled'",
    message="'tls.clients is ' + self.tls.clients + ' with tls.internal Disabled: brokers in TLS dial "
    "controllers in TLS; set tls.internal to Enforced'",
    holds=lambda spec: (
        spec.tls.clients is ClientsTls.DISABLED or spec.tls.internal is not InternalTls.DISABLED
    ),
    problem=lambda spec: (
        f"tls.clients is {spec.tls.clients} with tls.internal Disabled: brokers in TLS dial controllers in "
        "TLS; set tls.internal to Enforced"
    ),
)
_EXTERNAL_IN_PLAIN = Rule(
    name="ExternalNameServers",
    expression="self.tls.clients != 'Enforcing' || !has(self.nameServers.external) || "
    "self.nameServers.external.size() == 0",
    message="'tls.clients is ' + self.tls.clients + ' with nameServers.external: external name servers have "
    "no certificates of the cluster; set tls.clients to Permissive'",
    holds=lambda spec: spec.tls.clients is not ClientsTls.ENFORCING or not spec.name_servers.external,
    problem=lambda _: (
        "tls.clients is Enforcing with nameServers.external: external name servers have no certificates of "
        "the cluster; set tls.clients to Permissive"
    ),
)
_RIGHTS_NEED_USERS = Rule(
    name="RightsWithoutUsers",
    expression="self.authorization.type == 'None' || self.authentication.type != 'None'",
    message="'authorization.type is ' + self.authorization.type + ' with authentication.type ' + "
    "self.authentication.type + ': rights belong to users; set authentication.type to Signature'",
    holds=lambda spec: not spec.has_rights or spec.has_users,
    problem=lambda spec: (
        f"authorization.type is {spec.authorization.type} with authentication.type "
        f"{spec.authentication.type}: rights belong to users; set authentication.type to Signature"
    ),
)
_USERS_NEED_VERSION = Rule(
    name="VersionWithoutUsers",
    expression=f"self.authentication.type == 'None' || self.version.matches('{VERSION_PATTERN}')",
    message="'authentication.type is ' + self.authentication.type + ' with version ' + self.version + "
    "': RocketMQ has users since 5.3.0'",
    holds=lambda spec: not spec.has_users or re.match(VERSION_PATTERN, spec.version) is not None,
    problem=lambda spec: (
        f"authentication.type is {spec.authentication.type} with version {spec.version}: "
        "RocketMQ has users since 5.3.0"
    ),
)


_GRPC_NEEDS_PROXIES = Rule(
    name="GrpcWithoutProxies",
    expression="self.proxy.mode == 'Cluster' || !has(self.listeners) || "
    "!self.listeners.exists(one, has(one.protocols) && 'GRPC' in one.protocols)",
    message="'listeners have the protocol GRPC with proxy.mode ' + self.proxy.mode + ': proxies in brokers "
    "answer with addresses inside, so set proxy.mode to Cluster'",
    holds=lambda spec: (
        spec.proxy.mode is ProxyMode.CLUSTER or not any(one.serves_grpc for one in spec.listeners)
    ),
    problem=lambda spec: (
        f"listeners have the protocol GRPC with proxy.mode {spec.proxy.mode}: proxies in brokers answer with "
        "addresses inside, so set proxy.mode to Cluster"
    ),
)


class RocketMQClusterSpec(SpecModel):
    """What a person asks of a cluster."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _RIGHTS_NEED_USERS,
        _USERS_NEED_VERSION,
        _CONTROLLERS_OF_OTHERS,
        _CLIENTS_NEED_INTERNAL,
        _EXTERNAL_IN_PLAIN,
        _GRPC_NEEDS_PROXIES,
        *IP_FAMILY_RULES,
        Rule(
            name="OlderProtocol",
            expression="!self.version.startsWith('5.0.') && self.version != '5.1.0'",
            message="'version is %s: its brokers speak another controller protocol, with addresses for "
            "broker ids; take 5.1.1 or newer'.format([self.version])",
            holds=lambda spec: not spec.version.startswith(BY_ADDRESS_PREFIXES),
            problem=lambda spec: (
                f"version is {spec.version}: its brokers speak another controller protocol, with addresses "
                "for broker ids; take 5.1.1 or newer"
            ),
        ),
    )

    version: Version = VERSION_DEFAULT
    """Version of RocketMQ."""
    images: Images = Images()
    """Images, where they are not the public ones."""
    name_servers: NameServersSpec = NameServersSpec()
    """What clients ask for routes."""
    controllers: ControllersSpec = ControllersSpec()
    """Who elects masters."""
    failover: NodeFailover = NodeFailover()
    """When a node is lost."""
    proxy: Proxy = Proxy()
    """Who speaks gRPC with clients."""
    tls: TlsSpec = TlsSpec()
    """Certificates of the cluster's processes."""
    ip_family_policy: IpFamilyPolicy | None = None
    """How many families of IP addresses all Services of the cluster and its groups have: SingleStack,
    PreferDualStack or RequireDualStack. Absent: as Kubernetes decides, which is one."""
    ip_families: IpFamilies = ()
    """The families: IPv4 or IPv6 with SingleStack, both with RequireDualStack. The first one never changes:
    brokers announce addresses of it. Empty: those of Kubernetes."""
    route_fronts: RouteFronts = RouteFronts()
    """Pods of the route fronts of all listeners."""
    listeners: Listeners = ()
    """How clients outside the network of the pods reach the brokers; clients inside need none."""
    authentication: Authentication = Authentication()
    """How brokers know a client."""
    authorization: Authorization = Authorization()
    """How brokers decide what a client may do."""
    log_to: LogTarget | None = None
    """Where name servers and proxies log: Stdout or Files. Absent: those of a new cluster to standard output,
    and those of a cluster from before this field to files unless there is a level. A change restarts them."""
    log_level: LogLevel | None = None
    """Least level of the log lines of controllers, name servers, proxies and route fronts; Info when absent.
    Name servers and proxies take it when they start, and only if they log to standard output; the others
    while they run. In a cluster from before `logTo` the first level sends their log to standard output, which
    restarts them once."""
    paused: bool = False
    """Whether the operator only looks and reports, and changes nothing."""

    @property
    def has_users(self) -> bool:
        """Whether brokers refuse requests without a user's signature."""
        return self.authentication.type is not AuthenticationType.NONE

    @property
    def has_rights(self) -> bool:
        """Whether brokers look at the rights of a user."""
        return self.authorization.type is not AuthorizationType.NONE

    @property
    def rocketmq_image(self) -> str:
        """The image of name servers, brokers and proxies."""
        return self.images.rocketmq or f"docker.io/apache/rocketmq:{self.version}"


class ControllerStatus(StatusModel):
    """One controller."""

    name: Annotated[str, Field(max_length=253)]
    """The pod's name."""
    role: Annotated[str, Field(max_length=16)]
    """Leader, Voter, Learner, Joining, Leaving, Replacing or Unknown."""
    ready: bool = False
    """Whether its pod is ready."""
    lag_entries: Annotated[int, Field(ge=0)] | None = None
    """How far its log is behind the leader's, in entries."""


class RocketMQClusterStatus(StatusModel):
    """What the operator says of a cluster."""

    observed_generation: ObservedGeneration = 0
    """The generation that was acted on."""
    conditions: Conditions = ()
    """Ready, QuorumHealthy, ProxyReady, ListenersReady, CertificatesValid, InSync, Progressing, Reconciling,
    Stalled, VersionSound, PodsAccepted, Paused; CredentialsCurrent with users; DeletionHeld while a cluster
    that is being deleted has controllers in use."""
    version: Annotated[str, Field(max_length=32)] = ""
    """Version of RocketMQ that the spec requests."""
    leader: Annotated[str, Field(max_length=253)] = ""
    """The controllers' leader, a pod's name."""
    term: Annotated[int, Field(ge=0)] = 0
    """Raft's term."""
    controllers: Annotated[str, Field(max_length=16)] = ""
    """Ready and requested controllers, for instance 3/3; empty if they are another cluster's."""
    controllers_of: Annotated[str, Field(max_length=2 * NAME_LENGTH_MAX + 1)] = ""
    """NAMESPACE/NAME of the cluster whose controllers this one uses; empty if they are its own."""
    controllers_used_by: Annotated[
        tuple[Annotated[str, Field(max_length=2 * NAME_LENGTH_MAX + 1)], ...],
        Field(max_length=USERS_MAX, json_schema_extra=KEPT_WHOLE),
    ] = ()
    """NAMESPACE/NAME of each other cluster that uses the controllers of this one."""
    members: Annotated[
        tuple[ControllerStatus, ...],
        Field(max_length=CONTROLLER_COUNTS[-1], json_schema_extra=kept_by("name")),
    ] = ()
    """Every controller."""
    name_servers: Annotated[str, Field(max_length=16)] = ""
    """Ready and requested name servers, for instance 2/2, or how many are external."""
    proxies: Annotated[str, Field(max_length=16)] = ""
    """Ready and requested proxies; empty if they run in other pods."""
    proxy_replicas: Annotated[int, Field(ge=0)] = 0
    """Pods of proxies that exist, for the scale subresource."""
    proxy_selector: Annotated[str, Field(max_length=256)] = ""
    """Selector of the proxies' pods, for the scale subresource; empty if they run in other pods."""
    issuer: Annotated[str, Field(max_length=512)] = ""
    """The issuer of cert-manager whose Certificates exist, kind and name; empty without them."""
    listeners: ListenerStatuses = ()
    """What applications use as their name server address, inside and by listener."""
    addresses: Annotated[str, Field(max_length=4_096)] = ""
    """The addresses of the listeners in one line, for `kubectl get -o wide`."""
    reason: Annotated[str, Field(max_length=64)] = ""
    """One word why the cluster is not ready, or for the trouble of one of its pods; empty without trouble."""
