"""Refuse a changed pod template that lacks a field of the operator, and name the field.

    owned                                              because
    labels and annotations of the operator             selectors and digests read them
    name, image, command, ports, mounts, variables,    the program would be another one, or without its
      how probes ask, and preStop of its containers      configuration, its store or its place in the group
    its volumes but `scratch`                          configuration, token and store
    its host names                                     a failover must not wait for DNS
    one network and one process namespace for each     members of one node would share ports, and a start
      pod                                                script signals every Java process that it sees
    at least 30 s of grace                             a broker hands over within the first 20 s

Everything else may be changed: resources, numbers of probes, security, scheduling, DNS, further containers.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rocketmq_operator.api.pods.settings import GRACE_S_MIN
from rocketmq_operator.plan.common.names import DATA_VOLUME
from rocketmq_operator.plan.common.objects import Json
from rocketmq_operator.plan.common.shaping.override import PodRefusedError

_SHOWN_CHARS_MAX: Final = 60
_FORBIDDEN: Final[Mapping[str, str]] = {
    "activeDeadlineSeconds": "the operator's pods run until they are deleted",
    "ephemeralContainers": "a template cannot have them",
    "hostIPC": "a pod's processes must not reach those of its node",
    "hostNetwork": "members on one node would share their ports",
    "hostPID": "the start scripts signal every Java process that they see",
    "hostname": "Kubernetes names the pods of a StatefulSet",
    "nodeName": "the scheduler must choose the node",
    "restartPolicy": "a container that ends must start again",
    "setHostnameAsFQDN": "Kubernetes names the pods of a StatefulSet",
    "shareProcessNamespace": "the start scripts signal every Java process that they see",
    "subdomain": "it is the name of the operator's Service",
}
_WRITTEN: Final = "the operator writes it"
_IMAGE: Final = "set spec.images of the RocketMQCluster"
_SAME: Final[Mapping[str, str]] = {
    "image": _IMAGE,
    "command": _WRITTEN,
    "args": _WRITTEN,
    "workingDir": _WRITTEN,
    "lifecycle": "the operator writes it; it decides how a broker ends",
    "restartPolicy": _WRITTEN,
}
_NAMED: Final[Mapping[str, str]] = {"env": "name", "ports": "containerPort", "volumeMounts": "mountPath"}
_PROBES: Final = ("startupProbe", "livenessProbe", "readinessProbe")
_HANDLERS: Final = ("exec", "grpc", "httpGet", "tcpSocket")
_CHANGEABLE_VOLUMES: Final = frozenset({"scratch"})


def check_owned(own: Json, changed: Json, where: str, *, is_flat: bool = False) -> None:
    """Raise `PodRefusedError` if a changed template lacks something of the operator's own template.

    Args:
        own: the template before any setting of a person.
        changed: the template after them.
        where: the field of the resource whose content changed it, for instance spec.podOverride.
        is_flat: whether that field has the pod's fields without `metadata` and `spec` above them.
    """
    problem = next(_problems(own, changed), None)
    if problem is not None:
        path, value, why = problem
        path = path.removeprefix("spec.").removeprefix("metadata.") if is_flat else path
        shown = "absent" if value is None else str(value)[:_SHOWN_CHARS_MAX]
        raise PodRefusedError(f"{where}.{path} is {shown}: {why}")


Problem = tuple[str, Any, str]
"""The path of a field, its value, and why it is refused."""


def _problems(own: Json, changed: Json) -> Iterator[Problem]:
    for name in ("labels", "annotations"):
        kept = changed["metadata"].get(name, {})
        for key, value in own["metadata"].get(name, {}).items():
            if kept.get(key) != value:
                yield f"metadata.{name}[{key}]", kept.get(key), _WRITTEN
    old, new = own["spec"], changed["spec"]
    for name, why in _FORBIDDEN.items():
        if name in new:
            yield f"spec.{name}", new[name], why
    value = new.get("terminationGracePeriodSeconds")
    if not isinstance(value, int) or value < GRACE_S_MIN:
        yield "spec.terminationGracePeriodSeconds", value, f"at least {GRACE_S_MIN}"
    for kind in ("initContainers", "containers"):
        yield from _container_problems(kind, old.get(kind, []), new.get(kind, []))
    yield from _port_problems(old, new)
    yield from _volume_problems(old, new)
    yield from _alias_problems(old.get("hostAliases", []), new.get("hostAliases", []))


def _container_problems(kind: str, own: list[Json], changed: list[Json]) -> Iterator[Problem]:
    names = [one["name"] for one in changed]
    wanted = [one["name"] for one in own]
    if names[: len(wanted)] != wanted:
        yield f"spec.{kind}", names, f"it must begin with {', '.join(wanted)}"
        return
    for one, other in zip(own, changed, strict=False):
        path = f"spec.{kind}[{one['name']}]"
        for name, why in _SAME.items():
            if one.get(name) != other.get(name):
                yield f"{path}.{name}", other.get(name), why
        for name, key in _NAMED.items():
            yield from _entry_problems(f"{path}.{name}", key, one.get(name, []), other.get(name, []))
        for name in _PROBES:
            for handler in _HANDLERS:
                found = _map(other.get(name)).get(handler)
                if _map(one.get(name)).get(handler) != found:
                    yield f"{path}.{name}.{handler}", found, "the operator decides how it asks"


def _entry_problems(path: str, key: str, own: list[Json], changed: list[Json]) -> Iterator[Problem]:
    """Yield entries of ours that are gone or changed, or of which there are two."""
    for one in own:
        found = [other for other in changed if other.get(key) == one[key]]
        if found != [one]:
            yield f"{path}[{one[key]}]", found or None, _WRITTEN


def _port_problems(own: Json, changed: Json) -> Iterator[Problem]:
    """Yield ports of other containers that are ours: all containers of a pod share its network."""
    names = {one["name"] for one in _containers(own)}
    ours = {port["containerPort"]: one["name"] for one in _containers(own) for port in one.get("ports", ())}
    for one in _containers(changed):
        for port in one.get("ports", ()):
            if one["name"] not in names and (owner := ours.get(port.get("containerPort"))) is not None:
                path = f"spec.containers[{one['name']}].ports"
                yield path, port["containerPort"], f"container {owner} has this port"


def _volume_problems(own: Json, changed: Json) -> Iterator[Problem]:
    found: dict[str, list[Json]] = {}
    for one in changed.get("volumes", []):
        found.setdefault(one["name"], []).append(one)
    for one in own["volumes"]:
        same = found.get(one["name"], [])
        if len(same) != 1 or (one["name"] not in _CHANGEABLE_VOLUMES and same != [one]):
            yield f"spec.volumes[{one['name']}]", same or None, _WRITTEN
    if DATA_VOLUME in found and all(one["name"] != DATA_VOLUME for one in own["volumes"]):
        yield f"spec.volumes[{DATA_VOLUME}]", found[DATA_VOLUME], "it is the name of each member's own volume"


def _alias_problems(own: list[Json], changed: list[Json]) -> Iterator[Problem]:
    address = {host: one["ip"] for one in own for host in one["hostnames"]}
    lines: dict[str, list[str]] = {}
    for one in changed:
        lines.setdefault(one["ip"], []).extend(map(str, _list(one.get("hostnames"))))
    for host, ip in address.items():
        if host not in lines.get(ip, ()):
            yield f"spec.hostAliases[{ip}]", lines.get(ip), f"it must have {host}"
        for other, hosts in lines.items():
            if other != ip and host in hosts:
                yield f"spec.hostAliases[{other}]", hosts, f"{host} is {ip}"


def _map(value: object) -> Mapping[str, Any]:
    """Return a field of a person's pod if it is a map, and an empty one if not: Kubernetes refuses it."""
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _containers(pod: Json) -> Iterator[Json]:
    yield from pod.get("initContainers", ())
    yield from pod["containers"]
