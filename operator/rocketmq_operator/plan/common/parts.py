"""Parts of pods: what Kubernetes' restricted profile asks of every one, probes, resources, places.

Every container runs without root, without capabilities, on a read-only root; what it writes goes to its
volume or to an emptyDir. Probes ask a port; none starts a program, because a program that hangs takes its pod
down with it.

Source: Kubernetes "Pod Security Standards", restricted.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import Placement, Resources, Spread, Toleration
from rocketmq_operator.api.names import CONFIG_HASH_ANNOTATION
from rocketmq_operator.plan.common.names import (
    CONFIG_PATH,
    CREDENTIALS_PATH,
    DATA_VOLUME,
    SCRATCH_PATH,
    STORE_PATH,
    credentials_secret,
)
from rocketmq_operator.plan.common.objects import Json, Live, Owner, child, quantity

ROCKETMQ_USER: Final = 3000
"""User and group of the public RocketMQ images."""
OUR_USER: Final = 10001
STARTUP_FAILURES_MAX: Final = 120
"""Times 5 s: a broker that recovers a large log needs minutes."""
GRACE_S: Final = 60
QUICK_DNS: Final[Json] = {
    "options": [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "2"}],
}
"""For brokers: RocketMQ's client resolves names on the one thread that carries all of its connections,
heartbeats too. With DNS out of reach that takes 20 s by the resolver's defaults. What a broker always needs
it finds among its `host_aliases`."""
_CREDENTIALS: Final = "credentials"
_CLAIM_KEYS: Final = ("accessModes", "resources", "storageClassName", "volumeAttributesClassName")


def pod_security(user: int) -> Json:
    """Return a pod's security context; its volumes belong to the same group."""
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Json:
    """Return a container's security context."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def http_probe(path: str, port: int, *, failures_max: int = 3, period_s: int = 2) -> Json:
    """Return a probe that asks a path."""
    return _probe({"httpGet": {"path": path, "port": port}}, failures_max, period_s)


def tcp_probe(port: int, *, failures_max: int = 3, period_s: int = 2) -> Json:
    """Return a probe that opens a connection."""
    return _probe({"tcpSocket": {"port": port}}, failures_max, period_s)


def _probe(how: Json, failures_max: int, period_s: int) -> Json:
    return how | {"periodSeconds": period_s, "timeoutSeconds": 2, "failureThreshold": failures_max}


def resources(wanted: Resources, beside: Resources | None = None) -> Json:
    """Return a container's resources.

    Args:
        wanted: its own.
        beside: those of the main container of its pod; where they have a limit of CPUs, this one has one too,
            because a quota of limits refuses a pod for any container without one.
    """
    limit = wanted.cpu_limit
    if limit is None and beside is not None and beside.cpu_limit is not None:
        limit = max(beside.cpu_limit, wanted.cpu, key=_value)
    request = wanted.cpu if limit is None else min(wanted.cpu, limit, key=_value)
    return {
        "requests": {"cpu": request, "memory": wanted.memory},
        "limits": {"memory": wanted.memory} | ({} if limit is None else {"cpu": limit}),
    }


def _value(amount: str) -> Decimal:
    return quantity(amount) or Decimal(0)


def container(
    name: str, image: str, command: Sequence[str], ports: Mapping[str, int], **rest: object
) -> Json:
    """Return a container with what all have in common."""
    # The API server keeps no empty list: one that is wanted is applied again and again.
    listed = [{"name": port, "containerPort": number} for port, number in ports.items()]
    return {
        "name": name,
        "image": image,
        "command": list(command),
        **({"ports": listed} if listed else {}),
        "securityContext": container_security(),
        # The last lines of a container that fails stand in its pod's status, for the operator and for people
        # (`exit_message`).
        "terminationMessagePolicy": "FallbackToLogsOnError",
        **rest,
    }


def pod_name_environment() -> list[Json]:
    """Return variables with the pod's own name and address."""
    return [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in (("POD_NAME", "metadata.name"), ("POD_IP", "status.podIP"))
    ]


def mounts(*, data: bool) -> list[Json]:
    """Return the mounts of configuration, scratch space and, if wanted, the volume."""
    wanted = [("config", CONFIG_PATH, True), ("scratch", SCRATCH_PATH, False)]
    if data:
        wanted.append((DATA_VOLUME, STORE_PATH, False))
    return [
        {"name": name, "mountPath": path} | ({"readOnly": True} if read_only else {})
        for name, path, read_only in wanted
    ]


def volumes(config_map: str) -> list[Json]:
    """Return the volumes of configuration and scratch space."""
    return [
        {"name": "config", "configMap": {"name": config_map, "defaultMode": 0o555}},
        {"name": "scratch", "emptyDir": {}},
    ]


def with_credentials(pod: Json, cluster: str) -> Json:
    """Return a pod whose containers have the credentials with which requests to brokers are signed."""
    return with_secret(pod, _CREDENTIALS, credentials_secret(cluster), CREDENTIALS_PATH)


def with_secret(pod: Json, name: str, secret: str, path: str, files: Mapping[str, str] | None = None) -> Json:
    """Return a pod whose containers have the files of a Secret.

    Args:
        pod: the pod's spec.
        name: of the volume.
        secret: the Secret.
        path: where the containers have it.
        files: which of its keys the pod has, with the name of the file; None for all, with their own names.
    """
    mount = {"name": name, "mountPath": path, "readOnly": True}
    items = [{"key": key, "path": file} for key, file in (files or {}).items()]
    source = {"secretName": secret, "defaultMode": 0o440, **({"items": items} if items else {})}
    volume = {"name": name, "secret": source}
    given = {
        key: [one | {"volumeMounts": [*one["volumeMounts"], mount]} for one in pod[key]]
        for key in ("initContainers", "containers")
        if key in pod
    }
    return pod | given | {"volumes": [*pod["volumes"], volume]}


def claim_template(size: str, storage_class_name: str | None, labels: Mapping[str, str]) -> Json:
    """Return the template of each member's volume; its labels are how the volume is found again."""
    spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    if storage_class_name is not None:
        spec["storageClassName"] = storage_class_name
    return {"metadata": {"name": DATA_VOLUME, "labels": dict(labels)}, "spec": spec}


def with_placement(pod: Json, placement: Placement, labels: Mapping[str, str]) -> Json:
    """Return the pod's spec with the rules of where it runs: apart from pods with the same `labels`."""
    term: Json = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": placement.topology_key}
    rule: Json = (
        {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        if placement.spread is Spread.REQUIRED
        else {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}
    )
    result = pod | {"affinity": {"podAntiAffinity": rule}}
    if placement.node_selector:
        result["nodeSelector"] = dict(placement.node_selector)
    if placement.tolerations:
        result["tolerations"] = tolerations(placement.tolerations)
    return result


def tolerations(given: Iterable[Toleration]) -> list[Json]:
    """Return tolerations as a pod has them: without fields that say nothing."""
    return [
        {key: value for key, value in one.model_dump(by_alias=True, exclude_none=True).items() if value != ""}
        for one in given
    ]


def disruption_budget(
    owner: Owner, name: str, labels: Mapping[str, str], selector: Mapping[str, str]
) -> Json:
    """Return the PodDisruptionBudget under which one member at a time may be drained."""
    return child(
        owner,
        "PodDisruptionBudget",
        name,
        labels=labels,
        spec={"maxUnavailable": 1, "selector": {"matchLabels": dict(selector)}},
    )


def headless_service(
    owner: Owner, name: str, labels: Mapping[str, str], selector: Mapping[str, str], ports: Mapping[str, int]
) -> Json:
    """Return a Service that gives each pod its DNS name, ready or not."""
    return _service(owner, name, labels, selector, ports, clusterIP="None")


def pod_service(owner: Owner, name: str, labels: Mapping[str, str], ports: Mapping[str, int]) -> Json:
    """Return a Service of one pod's name: its address stays when the pod's changes, and needs no DNS."""
    return _service(owner, name, labels, {"statefulset.kubernetes.io/pod-name": name}, ports)


def client_service(
    owner: Owner, name: str, labels: Mapping[str, str], selector: Mapping[str, str], ports: Mapping[str, int]
) -> Json:
    """Return a Service for people's clients: it leads to pods that are ready, to any of them."""
    spec = {"selector": dict(selector), "ports": service_ports(ports)}
    return child(owner, "Service", name, labels=labels, spec=spec)


def _service(
    owner: Owner,
    name: str,
    labels: Mapping[str, str],
    selector: Mapping[str, str],
    ports: Mapping[str, int],
    **rest: str,
) -> Json:
    """Return a Service that leads to its pods, ready or not."""
    spec = {
        "publishNotReadyAddresses": True,
        "selector": dict(selector),
        "ports": service_ports(ports),
        **rest,
    }
    return child(owner, "Service", name, labels=labels, spec=spec)


def in_families(service: Json, cluster: RocketMQClusterSpec | None) -> Json:
    """Return a Service of a cluster with the families of addresses that the cluster's spec asks for."""
    if cluster is None or cluster.ip_family_policy is None:
        return service
    asked: Json = {"ipFamilyPolicy": cluster.ip_family_policy.value}
    if cluster.ip_families:
        asked["ipFamilies"] = [family.value for family in cluster.ip_families]
    return service | {"spec": service["spec"] | asked}


def host_aliases(addresses: Mapping[str, str]) -> list[Json]:
    """Return what makes a pod know these hosts without asking DNS: address by host name."""
    return [{"ip": address, "hostnames": [host]} for host, address in sorted(addresses.items())]


def service_ports(ports: Mapping[str, int]) -> list[Json]:
    """Return a Service's ports, each the same number inside."""
    return [
        {"name": name, "port": number, "targetPort": number, "protocol": "TCP"}
        for name, number in ports.items()
    ]


def digest(*texts: str) -> str:
    """Return a short digest by which pods see that their configuration changed."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def pod_template(labels: dict[str, str], config_hash: str, pod: Json) -> Json:
    """Return a pod template that changes with the configuration."""
    return {"metadata": {"labels": labels, "annotations": {CONFIG_HASH_ANNOTATION: config_hash}}, "spec": pod}


def deployment(
    owner: Owner,
    name: str,
    labels: dict[str, str],
    selector: Mapping[str, str],
    replicas: int,
    template: Json,
) -> Json:
    """Return a Deployment whose pods are replaced one by one.

    One that serves goes when another one does: a single pod is replaced without a gap.
    """
    spec = {
        "replicas": replicas,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": selector},
        "template": template,
    }
    return child(owner, "Deployment", name, labels=labels, spec=spec)


def with_live_claim_templates(body: Json, live: Live | None) -> Json:
    """Return a StatefulSet with the claims that it was made with, which Kubernetes does not let change.

    Volumes grow by their own claims; only claims of later members follow the first template.
    """
    if live is None or "volumeClaimTemplates" not in body.get("spec", {}):
        return body
    templates = [
        {
            "metadata": _picked(claim["metadata"], "name", "labels", "annotations"),
            "spec": _picked(claim["spec"], *_CLAIM_KEYS),
        }
        for claim in live["spec"]["volumeClaimTemplates"]
    ]
    return body | {"spec": body["spec"] | {"volumeClaimTemplates": templates}}


def _picked(value: Live, *keys: str) -> Json:
    """Return these keys only, without what the API server added."""
    return {key: value[key] for key in keys if key in value}
