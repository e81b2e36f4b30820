"""Settings of a cluster's controllers and name servers that must be refused."""

from typing import Any, Final

from testkit.worlds.crd_cases import RefusedChange

Json = dict[str, Any]
_REF: Final[Json] = {"controllers": {"ref": {"name": "main"}}}
_GRPC_LISTENER: Final[Json] = {
    "name": "outside",
    "type": "NodePort",
    "advertisedHost": "mq.example.org",
    "protocols": ["Remoting", "GRPC"],
}
_EXTERNAL: Final[Json] = {"nameServers": {"external": ["10.0.0.7:9876"]}}


def _refused(name: str, change: Json, *words: str, before: Json | None = None) -> RefusedChange:
    return RefusedChange(name, "RocketMQCluster", change, words, before or {})


def _later(name: str, before: Json, change: Json, *words: str) -> RefusedChange:
    return RefusedChange(name, "RocketMQCluster", change, words, before, update=True)


_OF_OTHERS: Final[tuple[tuple[str, Json], ...]] = (
    ("a number", {"controllers": {"replicas": 5}}),
    ("a volume", {"controllers": {"storage": {"size": "20Gi"}}}),
    ("a storage class", {"controllers": {"storage": {"storageClassName": "fast"}}}),
    ("unclean elections", {"controllers": {"enableElectUncleanMaster": True}}),
    ("no notices", {"controllers": {"notifyBrokerRoleChanged": False}}),
    ("pods", {"controllers": {"pod": {"runtimeClassName": "gvisor"}}}),
    ("a grant", {"controllers": {"allowedNamespaces": ["bank"]}}),
    ("a node's silence", {"failover": {"nodeTimeoutMs": 700}}),
    ("TLS", {"tls": {"internal": "Disabled"}}),
    ("an authority", {"tls": {"authority": {"secretName": "ours"}}}),
    ("an issuer", {"tls": {"issuerRef": {"name": "company"}}}),
    ("TLS with clients", {"tls": {"clients": "Permissive"}}),
)
_FAMILY_CASES: Final = (
    _refused("families without a policy", {"ipFamilies": ["IPv4"]}, "ipFamilies", "1 entries", "none"),
    _refused(
        "two families of one stack",
        {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4", "IPv6"]},
        "2 entries",
        "SingleStack",
    ),
    _refused(
        "a family that is preferred",
        {"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"]},
        "1 entries",
        "PreferDualStack",
    ),
    _refused(
        "one family twice",
        {"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv6"]},
        "2 entries",
        "RequireDualStack",
    ),
    _refused("an unknown family", {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPX"]}, "IPX"),
    _refused("an unknown policy", {"ipFamilyPolicy": "Both"}, "Both"),
    _refused(
        "IPv6 of a version that cannot",
        {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"], "version": "5.1.4"},
        "ipFamilies",
        "5.1.4",
        "5.2.0",
    ),
    _later(
        "another first family",
        {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]},
        {"ipFamilies": ["IPv6"]},
        "ipFamilies[0]",
        "IPv4",
        "IPv6",
    ),
    _later(
        "no policy any more",
        {"ipFamilyPolicy": "PreferDualStack"},
        {"ipFamilyPolicy": None},
        "ipFamilyPolicy",
        "PreferDualStack",
    ),
)
CLUSTER_REFUSALS: Final = (
    *_FAMILY_CASES,
    *(
        _refused(f"{name} for another cluster's controllers", change, "controllers.ref", "main", before=_REF)
        for name, change in _OF_OTHERS
    ),
    _refused("controllers without a name", {"controllers": {"ref": {"namespace": "bank"}}}, "name"),
    _refused("a namespace with a dot", {"controllers": {"allowedNamespaces": ["a.b"]}}, "allowedNamespaces"),
    _refused(
        "external name servers, and a number", {"nameServers": {"replicas": 3}}, "external", before=_EXTERNAL
    ),
    _refused(
        "external name servers, and settings", {"nameServers": {"config": {"a": "1"}}}, before=_EXTERNAL
    ),
    _refused(
        "a port of name servers",
        {"nameServers": {"config": {"listenPort": "9"}}},
        "nameServers.config.listenPort",
    ),
    _refused(
        "a controller in name servers",
        {"nameServers": {"config": {"enableControllerInNamesrv": "true"}}},
        "nameServers.config.enableControllerInNamesrv",
        "starts a controller",
    ),
    _refused(
        "gRPC through proxies in brokers",
        {"listeners": [_GRPC_LISTENER]},
        "GRPC",
        "proxy.mode",
        before={"proxy": {"mode": "Local"}},
    ),
    _refused(
        "a protocol that is not known", {"listeners": [_GRPC_LISTENER | {"protocols": ["HTTP"]}]}, "HTTP"
    ),
    _refused(
        "external proxies without a port",
        {"listeners": [_GRPC_LISTENER | {"type": "External"}]},
        "proxy for GRPC",
        before={"proxy": {"mode": "Cluster"}},
    ),
    _refused(
        "a node port of proxies with a load balancer",
        {"listeners": [_GRPC_LISTENER | {"type": "LoadBalancer", "proxy": {"nodePort": 30081}}]},
        "nodePort",
        before={"proxy": {"mode": "Cluster"}},
    ),
    _refused("a name server without a port", {"nameServers": {"external": ["10.0.0.7"]}}, "10.0.0.7"),
    _refused("name servers in one text", {"nameServers": {"external": ["a:1;b:2"]}}, "a:1;b:2"),
    _refused(
        "clients in TLS with controllers in plain TCP",
        {"tls": {"clients": "Permissive", "internal": "Disabled"}},
        "tls.clients is Permissive",
        "tls.internal",
    ),
    _refused(
        "clients in TLS only with external name servers",
        {"tls": {"clients": "Enforcing"}},
        "tls.clients is Enforcing",
        "external",
        before=_EXTERNAL,
    ),
    _refused(
        "an issuer and an authority",
        {"tls": {"issuerRef": {"name": "company"}, "authority": {"secretName": "mine"}}},
        "tls.issuerRef names Issuer company",
        "tls.authority.secretName is mine",
    ),
    _refused(
        "an issuer of a kind that cert-manager has not",
        {"tls": {"issuerRef": {"name": "company", "kind": "Vault"}}},
        "tls.issuerRef.kind is Vault",
        "Issuer or ClusterIssuer",
    ),
    _refused("an issuer without a name", {"tls": {"issuerRef": {"kind": "Issuer"}}}, "tls.issuerRef", "name"),
    _refused(
        "an issuer's group with a slash", {"tls": {"issuerRef": {"name": "a", "group": "b/v1"}}}, "group"
    ),
    _refused("another word for clients in TLS", {"tls": {"clients": "Required"}}, "tls.clients", "Required"),
    _later("controllers of its own that become another's", {}, _REF, "controllers.ref cannot change"),
    _later(
        "other controllers of others",
        _REF,
        {"controllers": {"ref": {"name": "third"}}},
        "controllers.ref cannot change",
    ),
    _later("name servers of its own that become external", {}, _EXTERNAL, "nameServers.external"),
    _later(
        "external name servers that become its own",
        _EXTERNAL,
        {"nameServers": {"external": []}},
        "nameServers.external",
    ),
)
ACCEPTED_CLUSTER_CHANGES: Final[tuple[tuple[str, str, Json], ...]] = (
    (
        "settings of name servers",
        "RocketMQCluster",
        {"nameServers": {"config": {"scanNotActiveBrokerInterval": "3000"}}},
    ),
    (
        "gRPC through proxies in their own pods",
        "RocketMQCluster",
        {"proxy": {"mode": "Cluster"}, "listeners": [_GRPC_LISTENER]},
    ),
    ("a grant to another namespace", "RocketMQCluster", {"controllers": {"allowedNamespaces": ["1bank"]}}),
    (
        "an issuer for the whole cluster",
        "RocketMQCluster",
        {"tls": {"issuerRef": {"name": "company", "kind": "ClusterIssuer"}}},
    ),
    (
        "an issuer beside cert-manager",
        "RocketMQCluster",
        {"tls": {"issuerRef": {"name": "ours", "kind": "AWSPCAIssuer", "group": "awspca.cert-manager.io"}}},
    ),
    ("clients in TLS only", "RocketMQCluster", {"tls": {"clients": "Enforcing", "internal": "Enforced"}}),
    (
        "clients in TLS or plain TCP with external name servers",
        "RocketMQCluster",
        {"tls": {"clients": "Permissive"}, **_EXTERNAL},
    ),
)
