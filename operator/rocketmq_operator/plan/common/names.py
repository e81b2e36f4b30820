"""Names of children, ports and paths: the one place that knows how they are spelt.

Pods are named as people see them: `orders-0` is the first broker of the group orders, `orders-log-0` its
first log replica. Each member has a Service of its own name.
"""

from typing import Final

BROKER_PORT: Final = 10911
BROKER_FAST_PORT: Final = BROKER_PORT - 2
"""The port for producers that must not wait behind consumers. Source: RocketMQ 5.4.0
BrokerController.java."""
BROKER_HA_PORT: Final = 10912
BROKER_HOLD_PORT: Final = BROKER_PORT - 1
"""The companion's port: new connections to a master whose pod is being deleted wait there for its end. See
docs/reference/companion.md."""
HOLD: Final = "hold"
"""What that port is called in a pod."""
BROKER_GUEST_PORT: Final = BROKER_PORT - 3
"""The companion's port for clients that come by the address of a former master. See
docs/reference/companion.md."""
GUESTS: Final = "guests"
"""What that port is called in a pod."""
BROKER_METRICS_PORT: Final = 5557
COMPANION_HTTP_PORT: Final = 9882
LEASE_PORT: Final = 9884
"""The companion's port for the guard of the broker's write lease, on the pod's loopback only."""
NAME_SERVER_PORT: Final = 9876
CONTROLLER_PORT: Final = 9878
CONTROLLER_RAFT_PORT: Final = CONTROLLER_PORT + 1
CONTROLLER_HTTP_PORT: Final = CONTROLLER_PORT + 2
CONTROLLERS_MAX: Final = 5
"""Maximum number of controllers. Each has a name and an address from the start, even before it exists:
members configured with all of them need no restart when their number changes."""
REPLICA_PORT: Final = 10911
REPLICA_HA_PORT: Final = 10912
REPLICA_HTTP_PORT: Final = 9881
ROUTE_FRONT_PORT: Final = NAME_SERVER_PORT
ROUTE_FRONT_HTTP_PORT: Final = 9883
PROXY_GRPC_PORT: Final = 8081
PROXY_REMOTING_PORT: Final = 8080
PROXY_METRICS_PORT: Final = 5557

STORE_PATH: Final = "/var/lib/rocketmq"
CONFIG_PATH: Final = "/etc/rocketmq"
SCRATCH_PATH: Final = "/tmp"  # noqa: S108 - an emptyDir of the pod's own
TLS_PATH: Final = "/etc/rocketmq-tls"
TOKEN_PATH: Final = "/etc/rocketmq-token"  # noqa: S105 - a path
TOKEN_KEY: Final = "token"  # noqa: S105 - a key's name
AGENT_TOKEN_KEY: Final = "node-agent"  # noqa: S105 - a key's name
CREDENTIALS_PATH: Final = "/etc/rocketmq-credentials"
"""Where a pod has the credentials with which it signs requests to brokers."""
USERNAME_KEY: Final = "username"
PASSWORD_KEY: Final = "password"  # noqa: S105 - a key's name
"""The keys of a Secret of type kubernetes.io/basic-auth."""
INNER_USER: Final = "rocketmq-ha"
"""The super user of the operator and of all members."""
DATA_VOLUME: Final = "data"

GROUPS_ENTRY: Final = "groups"
"""The Certificate of cert-manager that all groups share. Why one: the operator may read Secrets by their
names only, and the chart cannot know the names of groups."""
NAME_SERVER_ENTRY: Final = "nameserver"
PROXY_ENTRY: Final = "proxy"
ROUTE_FRONT_ENTRY: Final = "route-front"
"""Entries of the Secret with certificates, as the Certificates are called too."""

MEASURED_PATH: Final = "/data"
"""Where a report's pod has the volume with the measurements."""
REPORTS_FOLDER: Final = "reports"
"""On that volume: what the report server shows. Each report has a folder of its name."""
DAYS_FOLDER: Final = "report-days"
"""On that volume: what reports keep of closed days. Each report has a folder of its name, with one for each
directory it ever read."""
OBJECTIVES_PATH: Final = "/etc/report"
OBJECTIVES_FILE: Final = "objectives.yaml"


def member(group: str, ordinal: int) -> str:
    """Return the name of a broker's pod and of its Service."""
    return f"{group}-{ordinal}"


def log_set(group: str) -> str:
    """Return the name of the StatefulSet of a group's log replicas."""
    return f"{group}-log"


def log_member(group: str, ordinal: int) -> str:
    """Return the name of a log replica's pod and of its Service."""
    return f"{group}-log-{ordinal}"


def learner_set(group: str) -> str:
    """Return the name of the StatefulSet of a group's learners that are brokers."""
    return f"{group}-learner"


def log_learner_set(group: str) -> str:
    """Return the name of the StatefulSet of a group's learners that are log replicas."""
    return f"{group}-log-learner"


def controllers(cluster: str) -> str:
    """Return the name of the controllers' StatefulSet, Service and ConfigMap."""
    return f"{cluster}-controller"


def claim(pod: str) -> str:
    """Return the name of the PersistentVolumeClaim of a pod's volume."""
    return f"{DATA_VOLUME}-{pod}"


def name_servers(cluster: str) -> str:
    """Return the name of the name servers' StatefulSet and Service."""
    return f"{cluster}-nameserver"


def proxies(cluster: str) -> str:
    """Return the name of the proxies' Service.

    The Deployment and ConfigMap of proxies in pods of their own have the same name.
    """
    return f"{cluster}-proxy"


def route_front(cluster: str, listener: str) -> str:
    """Return the name of the Deployment, Service and ConfigMap of a listener's route front."""
    return f"{cluster}-front-{listener}"


def listener_proxies(cluster: str, listener: str) -> str:
    """Return the name of the Service at which clients of a listener reach the proxies."""
    return f"{cluster}-proxy-{listener}"


def bootstrap(cluster: str) -> str:
    """Return the name of the ConfigMap that tells applications where a cluster is."""
    return f"{cluster}-bootstrap"


def listener_member(member_name: str, listener: str) -> str:
    """Return the name of the Service, and its slice, at which clients of a listener reach a broker."""
    return f"{member_name}-{listener}"


def token_secret(cluster: str) -> str:
    """Return the name of the Secret with the token that changes of the controllers' state need."""
    return f"{cluster}-controller-token"


def credentials_secret(cluster: str) -> str:
    """Return the name of the Secret with the super user that signs the requests of operator and members."""
    return f"{cluster}-broker-credentials"


def user_secret(user: str) -> str:
    """Return the name of the Secret that the operator makes for a User."""
    return f"{user}-user"


def authority_secret(cluster: str) -> str:
    """Return the name of the Secret with the authority that signs a cluster's certificates."""
    return f"{cluster}-ca"


def controller_certificates(cluster: str) -> str:
    """Return the name of the Secret with the controllers' certificates."""
    return f"{cluster}-controller-tls"


def member_certificates(cluster: str) -> str:
    """Return the name of the Secret with the certificates of all members, name servers and proxies."""
    return f"{cluster}-member-tls"


def issued_certificate(cluster: str, entry: str) -> str:
    """Return the name of a Certificate of cert-manager, and of the Secret that cert-manager makes for it."""
    return f"{cluster}-issued-{entry}"


def issued_certificates(cluster: str) -> tuple[str, ...]:
    """Return the names of all Certificates that a cluster can have; the chart has the same list."""
    controllers_ = (controller_id(ordinal) for ordinal in range(CONTROLLERS_MAX))
    entries = (*controllers_, GROUPS_ENTRY, NAME_SERVER_ENTRY, PROXY_ENTRY, ROUTE_FRONT_ENTRY)
    return tuple(issued_certificate(cluster, entry) for entry in entries)


def trust(cluster: str) -> str:
    """Return the name of the ConfigMap with the authorities that clients of a cluster trust."""
    return f"{cluster}-trust"


def pod_host(set_name: str, ordinal: int, namespace: str) -> str:
    """Return the DNS name of a pod behind the headless Service of its set's name."""
    return f"{set_name}-{ordinal}.{set_name}.{namespace}.svc"


def controller(cluster: str, ordinal: int) -> str:
    """Return the name of a controller's pod and of its Service."""
    return member(controllers(cluster), ordinal)


def controller_id(ordinal: int) -> str:
    """Return what controllers call one another."""
    return f"n{ordinal}"


def controller_hosts(cluster: str, namespace: str, count: int = CONTROLLERS_MAX) -> tuple[str, ...]:
    """Return the DNS names of all controllers that there can be, or of the first ones."""
    return tuple(pod_host(controllers(cluster), ordinal, namespace) for ordinal in range(count))


def name_server_hosts(cluster: str, namespace: str, count: int) -> tuple[str, ...]:
    """Return the DNS names of all name servers."""
    return tuple(pod_host(name_servers(cluster), ordinal, namespace) for ordinal in range(count))


def pod_of(host: str) -> str:
    """Return the pod, and so the Service of its own, that a DNS name of `pod_host` means."""
    return host.partition(".")[0]


def controller_addresses(cluster: str, namespace: str) -> str:
    """Return what brokers are given as controllerAddr.

    It has every controller by its own name, never a shared address.

    Why: a broker sends its heartbeats to the addresses of its own list only; behind one shared address they
    would reach one controller, and not the one that leads. Why those too that are not there: a broker that is
    already running tries each address of its list every 3 s and beats to those that it reaches, so it finds a
    new controller by itself. One that is not there costs it a refused connection.

    Source: ReplicasManager.scanAvailableControllerAddresses 5.1.1, 5.5.0.
    """
    hosts = controller_hosts(cluster, namespace)
    return ";".join(f"{host}:{CONTROLLER_PORT}" for host in hosts)


def name_server_addresses(cluster: str, namespace: str, count: int) -> str:
    """Return what brokers and clients are given as namesrvAddr."""
    hosts = name_server_hosts(cluster, namespace, count)
    return ";".join(f"{host}:{NAME_SERVER_PORT}" for host in hosts)


def report_objectives(report: str) -> str:
    """Return the name of the ConfigMap with a report's objectives; its CronJob has the report's own name."""
    return f"{report}-objectives"


def is_member(name: str, set_name: str) -> bool:
    """Tell whether a pod's or Service's name is that of a member of the set."""
    prefix, _, ordinal = name.rpartition("-")
    return prefix == set_name and ordinal.isascii() and ordinal.isdigit()
