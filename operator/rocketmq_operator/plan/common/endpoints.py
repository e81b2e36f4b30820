"""Where the controllers and name servers of a cluster are: its own, another cluster's, or external ones."""

from typing import NamedTuple

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.plan.common import names


class ControllersHome(NamedTuple):
    """The RocketMQCluster to which controllers belong."""

    namespace: str
    cluster: str

    def __str__(self) -> str:
        """Return NAMESPACE/NAME."""
        return f"{self.namespace}/{self.cluster}"


def controllers_home(cluster: str, namespace: str, spec: RocketMQClusterSpec) -> ControllersHome:
    """Return whose controllers a cluster uses."""
    ref = spec.controllers.ref
    return ControllersHome(namespace, cluster) if ref is None else home_of(ref.namespace, ref.name, namespace)


def home_of(namespace: str | None, name: str, default_namespace: str) -> ControllersHome:
    """Return what a reference in an object of `default_namespace` means."""
    return ControllersHome(namespace or default_namespace, name)


def controller_hosts(cluster: str, namespace: str, spec: RocketMQClusterSpec) -> tuple[str, ...]:
    """Return the DNS names of all controllers that a cluster can have."""
    home = controllers_home(cluster, namespace, spec)
    return names.controller_hosts(home.cluster, home.namespace)


def controller_addresses(cluster: str, namespace: str, spec: RocketMQClusterSpec) -> str:
    """Return what the members of a cluster are given as their controllers."""
    home = controllers_home(cluster, namespace, spec)
    return names.controller_addresses(home.cluster, home.namespace)


def name_server_hosts(cluster: str, namespace: str, spec: RocketMQClusterSpec) -> tuple[str, ...]:
    """Return the DNS names of a cluster's own name servers; none if they are external."""
    if spec.name_servers.external:
        return ()
    return names.name_server_hosts(cluster, namespace, spec.name_servers.replicas)


def name_server_addresses(cluster: str, namespace: str, spec: RocketMQClusterSpec) -> str:
    """Return what brokers and clients of a cluster are given as namesrvAddr."""
    if spec.name_servers.external:
        return ";".join(spec.name_servers.external)
    return names.name_server_addresses(cluster, namespace, spec.name_servers.replicas)
