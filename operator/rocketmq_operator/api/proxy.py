"""RocketMQ's proxies as a part of a cluster's spec: where the gRPC port of RocketMQ 5's clients is.

A proxy of mode `Local` is a part of each broker's process, one of mode `Cluster` a process of its own that
keeps nothing. Source: RocketMQ 5.5.0 ProxyStartup.java, ProxyConfig.java.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel
from rocketmq_operator.api.common import Properties, Resources
from rocketmq_operator.api.pods.jvm import Jvm
from rocketmq_operator.api.pods.settings import PodOverride, PodSettings
from rocketmq_operator.api.rules import owned_keys, plain_properties

REPLICAS_MAX: Final = 16
OWNED_PROXY_KEYS: Final = (
    "authenticationEnabled",
    "authenticationMetadataProvider",
    "authorizationEnabled",
    "authorizationMetadataProvider",
    "brokerConfigPath",
    "enableAclRpcHookForClusterMode",
    "grpcServerPort",
    "innerClientAuthenticationCredentials",
    "namesrvAddr",
    "proxyMode",
    "remotingListenPort",
    "rocketMQClusterName",
)
"""Keys of rmq-proxy.json that the operator writes itself."""


class ProxyMode(StrEnum):
    """Where proxies run."""

    NONE = "None"
    """Nowhere: clients speak remoting with name servers and brokers."""
    LOCAL = "Local"
    """In the process of each broker."""
    CLUSTER = "Cluster"
    """In pods of their own, before all brokers of the cluster."""


class Proxy(SpecModel):
    """The proxies: who speaks gRPC with clients."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        plain_properties("proxy.config"),
        owned_keys("proxy.config", OWNED_PROXY_KEYS),
    )

    mode: ProxyMode = ProxyMode.NONE
    """Where proxies run: None, Local (in each broker's process) or Cluster (in pods of their own)."""
    replicas: Annotated[int, Field(ge=1, le=REPLICAS_MAX)] = 2
    """How many pods, with mode Cluster; one more than may fail."""
    resources: Resources = Resources(cpu="250m", memory="1Gi")
    """Of each of these pods. With mode Local a proxy lives on what its broker has."""
    jvm: Jvm | None = None
    """Of each of these pods, with mode Cluster."""
    pod: PodSettings | None = None
    """Of these pods, with mode Cluster."""
    pod_override: PodOverride | None = None
    """Laid over these pods, with mode Cluster."""
    config: Properties = Field(default={})
    """Further keys of rmq-proxy.json: a letter, then letters and digits. Keys that the operator writes are
    refused."""
