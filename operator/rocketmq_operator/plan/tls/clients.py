"""TLS of brokers, name servers, log replicas and proxies with their clients: the stages on the way to it.

    stage         ports                       Java's processes dial    ours dial
    disabled      plain TCP                   in plain TCP             in plain TCP
    permissive    TLS and plain TCP           in plain TCP             in TLS first, else in plain TCP
    dialling      TLS and plain TCP           in TLS                   in TLS first, else in plain TCP
    enforcing     TLS only                    in TLS                   in TLS only

A cluster moves by one stage, and by the next when all its pods are ready in the new one: neighbours of this
table reach each other, and no stage refuses what clients could do in the former one. `Permissive` ends at
permissive. The first pods of a new cluster begin at the end.

The stage is in the ConfigMap of authorities, where the operator's passes over groups read it. Without that
ConfigMap the pods' templates tell the stage.

Java does not check the certificates that it is shown when it dials: it reads the authorities once, when it
starts, and would refuse all peers after the authority has changed. Our own processes check them.

Source: RocketMQ 5.5.0 TlsSystemConfig.java, NettyRemotingClient.java, BrokerStartup.java.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from controller_core.tls.files import CERTIFICATE_FILE, ENFORCING, KEY_FILE, PERMISSIVE, TRUST_FILE
from rocketmq_operator.api.clusters.tls import ClientsTls, TlsSpec
from rocketmq_operator.api.names import CLIENTS_TLS_ANNOTATION, CLUSTER_LABEL, GROUP_LABEL
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.objects import Json, Live

STAGE_KEY: Final = "clients-tls"
"""Of the ConfigMap of authorities: the stage."""
CERTIFIED_KEY: Final = "clients-tls-members"
"""Of the ConfigMap of authorities: which entries the Secret of certificates has, with commas between."""
GROUP_ENTRY_PREFIX: Final = "group-"
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1"})


class ClientsStage(StrEnum):
    """How far the pods are."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    DIALLING = "dialling"
    ENFORCING = "enforcing"

    @property
    def has_certificates(self) -> bool:
        """Whether ports serve TLS with certificates of the cluster."""
        return self is not ClientsStage.DISABLED

    @property
    def java_dials(self) -> bool:
        """Whether Java's processes dial in TLS."""
        return self in {ClientsStage.DIALLING, ClientsStage.ENFORCING}

    @property
    def port_mode(self) -> str:
        """How ports with certificates serve, in RocketMQ's words and in ours."""
        return ENFORCING if self is ClientsStage.ENFORCING else PERMISSIVE


_ORDER: Final = tuple(ClientsStage)
_ENDS: Final = {
    ClientsTls.DISABLED: ClientsStage.DISABLED,
    ClientsTls.PERMISSIVE: ClientsStage.PERMISSIVE,
    ClientsTls.ENFORCING: ClientsStage.ENFORCING,
}


def next_stage(
    spec: TlsSpec, now: ClientsStage, *, is_new: bool, is_certified: bool, is_everywhere: bool
) -> ClientsStage:
    """Return the stage that the pods' templates should have now.

    Args:
        spec: what a person asks for.
        now: the stage that they have.
        is_new: whether no pod was ever made.
        is_certified: whether all certificates exist, and controllers speak TLS.
        is_everywhere: whether all pods are ready, and at the stage of now.
    """
    end = _ENDS[spec.clients]
    if now is end or (now is ClientsStage.DISABLED and not is_certified):
        return now
    if is_new:
        return end
    if not is_everywhere:
        return now
    at, target = _ORDER.index(now), _ORDER.index(end)
    return _ORDER[at + (1 if target > at else -1)]


def is_in_tls(spec: TlsSpec, stage: ClientsStage) -> bool:
    """Tell whether clients need authorities: the spec wants TLS with them, or it has not ended yet."""
    return spec.clients is not ClientsTls.DISABLED or stage.has_certificates


def published_stage(trust: Live | None, sets: Iterable[Live]) -> ClientsStage:
    """Return the stage in the ConfigMap of authorities, else the highest of the pods' templates."""
    text = ((trust or {}).get("data") or {}).get(STAGE_KEY)
    if text in set(_ORDER):
        return ClientsStage(text)
    return max((template_stage(live) for live in sets), key=_ORDER.index, default=ClientsStage.DISABLED)


def group_stage(
    trust: Live | None, children: Iterable[Iterable[Live]], group: str
) -> tuple[ClientsStage, bool]:
    """Return the stage of a group, and whether a certificate for it exists.

    Args:
        trust: the ConfigMap of authorities; None while it is gone.
        children: what belongs to the group, by kind.
        group: its name.
    """
    sets = [one for found in children for one in found if one["kind"] == "StatefulSet"]
    entries = ((trust or {}).get("data") or {}).get(CERTIFIED_KEY, "").split(",")
    return published_stage(trust, sets), trust is None or group_entry(group) in entries


def template_stage(live: Live) -> ClientsStage:
    """Return the stage of a set's template."""
    annotations = live["spec"]["template"]["metadata"].get("annotations") or {}
    text = annotations.get(CLIENTS_TLS_ANNOTATION)
    return ClientsStage(text) if text in set(_ORDER) else ClientsStage.DISABLED


def without_dialling(stage: ClientsStage) -> ClientsStage:
    """Return the stage of pods that are the same at permissive and dialling: no JVM in them dials."""
    return ClientsStage.PERMISSIVE if stage is ClientsStage.DIALLING else stage


def annotated(template: Json, stage: ClientsStage) -> Json:
    """Return a pod template that tells its stage; unchanged at `disabled`."""
    if not stage.has_certificates:
        return template
    metadata = template["metadata"]
    annotations = metadata.get("annotations", {}) | {CLIENTS_TLS_ANNOTATION: str(stage)}
    return template | {"metadata": metadata | {"annotations": annotations}}


def is_at(live: Live, stage: ClientsStage) -> bool:
    """Tell whether all pods of a StatefulSet or Deployment are ready, and at a stage."""
    status, replicas = live.get("status") or {}, live["spec"].get("replicas", 1)
    return (
        template_stage(live) is stage
        and status.get("observedGeneration") == live["metadata"].get("generation")
        and all(
            status.get(count, 0) == replicas for count in ("replicas", "updatedReplicas", "readyReplicas")
        )
    )


def plain_option(stage: ClientsStage) -> tuple[str, ...]:
    """Return the option of a JVM whose ports serve plain TCP; none if it has certificates.

    Without it Java makes a certificate for itself each time that it starts, and answers TLS with it. That is
    3.6 of the 8.4 s of CPU that a broker needs to start (decision 041). Not for proxies, because gRPC clients
    use TLS by default. A person's options come later and win.

    Source: NettyRemotingServer.loadSslContext, TlsHelper.buildSslContext 5.5.0.
    """
    return () if stage.has_certificates else ("-Dtls.server.mode=disabled",)


def with_tls_options(options: str, stage: ClientsStage, *, serves_grpc: bool = False) -> str:
    """Return a JVM's options with those of its ports around them.

    Args:
        options: memory, collector and a person's own.
        stage: of the pod.
        serves_grpc: whether it is or has a proxy.
    """
    plain = () if serves_grpc else plain_option(stage)
    return " ".join([*plain, options]) + java_tls_options(stage)


def java_tls_options(stage: ClientsStage) -> str:
    """Return the options of a JVM that has certificates, with a space before them; empty at `disabled`.

    `tls.test.mode.enable` is true by default: Java then serves a certificate that it makes for itself.
    """
    if not stage.has_certificates:
        return ""
    options = {
        "tls.test.mode.enable": "false",
        "tls.server.mode": stage.port_mode,
        "tls.server.certPath": f"{names.TLS_PATH}/{CERTIFICATE_FILE}",
        "tls.server.keyPath": f"{names.TLS_PATH}/{KEY_FILE}",
        "tls.server.trustCertPath": f"{names.TLS_PATH}/{TRUST_FILE}",
        "tls.server.need.client.auth": "none",
        "tls.client.authServer": "false",
        "tls.enable": str(stage.java_dials).lower(),
    }
    return "".join(f" -D{key}={value}" for key, value in options.items())


def proxy_tls_keys(stage: ClientsStage) -> dict[str, str]:
    """Return the keys of rmq-proxy.json; empty at `disabled`. Source: RocketMQ 5.5.0 ProxyConfig.java."""
    if not stage.has_certificates:
        return {}
    return {
        "tlsCertPath": f"{names.TLS_PATH}/{CERTIFICATE_FILE}",
        "tlsKeyPath": f"{names.TLS_PATH}/{KEY_FILE}",
        "tlsTestModeEnable": "false",
    }


def sidecar_tls_keys(stage: ClientsStage) -> dict[str, str]:
    """Return the settings of companions, log replicas and seeds; empty at `disabled`."""
    return {"tls": names.TLS_PATH, "tls-mode": stage.port_mode} if stage.has_certificates else {}


def with_certificate(pod: Json, cluster: str, entry: str, stage: ClientsStage) -> Json:
    """Return a pod whose containers have one certificate of the cluster; unchanged at `disabled`.

    The pod has its own certificate alone, not the others of the Secret.
    """
    if not stage.has_certificates:
        return pod
    files = {f"{entry}.crt": CERTIFICATE_FILE, f"{entry}.key": KEY_FILE, TRUST_FILE: TRUST_FILE}
    return parts.with_secret(pod, "tls", names.member_certificates(cluster), names.TLS_PATH, files)


def group_entry(group: str) -> str:
    """Return the entry of the certificate that all members of a group have.

    One for all: each of them may answer at the address of another one.
    """
    return f"{GROUP_ENTRY_PREFIX}{group}"


def group_certificates(services: Iterable[Live], namespace: str) -> dict[str, frozenset[str]]:
    """Return the hosts of each group's certificate by its entry, from the Services of all groups."""
    found: dict[str, frozenset[str]] = {}
    for service in services:
        labels: Mapping[str, str] = service["metadata"].get("labels") or {}
        group = labels[GROUP_LABEL]
        hosts = service_hosts(service, namespace)
        proxies = _names_of(names.proxies(labels[CLUSTER_LABEL]), namespace)
        pod = f"{service['metadata']['name']}.{group}.{namespace}.svc"
        entry = group_entry(group)
        found[entry] = found.get(entry, _LOOPBACK) | hosts | {pod} | proxies | _names_of(group, namespace)
    return found


def service_hosts(service: Live, namespace: str) -> frozenset[str]:
    """Return the names and addresses by which clients know a Service."""
    hosts = _names_of(service["metadata"]["name"], namespace)
    spec = service.get("spec") or {}
    hosts |= {one for one in spec.get("clusterIPs") or [spec.get("clusterIP", "")] if one not in {"", "None"}}
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    for one in ingress:
        hosts |= {one[key] for key in ("ip", "hostname") if one.get(key)}
    return frozenset(hosts)


def _names_of(service: str, namespace: str) -> set[str]:
    return {service, f"{service}.{namespace}", f"{service}.{namespace}.svc"}


def shared_certificate(services: Iterable[Live], namespace: str, hosts: Iterable[str] = ()) -> frozenset[str]:
    """Return the hosts of the certificate of all pods behind these Services; `hosts` are more names."""
    return frozenset().union(_LOOPBACK, hosts, *(service_hosts(one, namespace) for one in services))
