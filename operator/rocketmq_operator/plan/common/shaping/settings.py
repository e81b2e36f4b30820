"""Apply a spec's `pod` section to a pod template.

Entries of lists follow those of the operator: variables, volumes, mounts, containers, terms of the scheduler.
A single value, such as a number of a probe, replaces the operator's value.

Never: a decision whether the result still has the fields that the operator needs (`owned_fields`).
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from rocketmq_operator.api.names import COMPONENT_LABEL
from rocketmq_operator.api.pods.parts import ExtraContainer
from rocketmq_operator.api.pods.selectors import TopologySpread
from rocketmq_operator.api.pods.settings import HostAlias, PodSecurity, PodSettings
from rocketmq_operator.plan.common import parts
from rocketmq_operator.plan.common.objects import INSTANCE_LABEL, Json

_SELECTED_BY: Final = ("app.kubernetes.io/name", INSTANCE_LABEL, COMPONENT_LABEL)


def with_settings(template: Json, settings: PodSettings) -> Json:
    """Return a pod template with these settings.

    Args:
        template: labels, annotations and spec; the main container is the first one.
        settings: the `pod` section of its component.
    """
    result: Json = copy.deepcopy(template)
    metadata, pod = result["metadata"], result["spec"]
    metadata["labels"] = metadata["labels"] | (settings.labels or {})
    metadata["annotations"] = metadata["annotations"] | (settings.annotations or {})
    _place(pod, settings, metadata["labels"])
    _fill_main(pod["containers"][0], settings)
    if settings.image_pull_policy is not None:
        for one in (*pod.get("initContainers", ()), *pod["containers"]):
            one["imagePullPolicy"] = settings.image_pull_policy
    pod["containers"] += [_container(one) for one in settings.containers or ()]
    pod["volumes"] += _json_of(settings.volumes)
    if settings.host_aliases:
        pod["hostAliases"] = _with_aliases(pod.get("hostAliases", ()), settings.host_aliases)
    if settings.security_context is not None:
        pod["securityContext"] = pod_security(settings.security_context)
    one_value: Json = {
        "priorityClassName": settings.priority_class_name,
        "runtimeClassName": settings.runtime_class_name,
        "serviceAccountName": settings.service_account_name,
        "terminationGracePeriodSeconds": settings.termination_grace_period_seconds,
        "imagePullSecrets": _json_of(settings.image_pull_secrets) or None,
    }
    pod.update({name: value for name, value in one_value.items() if value is not None})
    return result


def pod_security(wanted: PodSecurity) -> Json:
    """Return a pod's security context without ids that the person did not give.

    Why: a platform that assigns ids to each namespace, as OpenShift does, refuses a pod that asks for others.
    """
    return {
        "runAsNonRoot": True,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
        **_json(wanted),
    }


def _place(pod: Json, settings: PodSettings, labels: Mapping[str, str]) -> None:
    if settings.affinity is not None:
        pod["affinity"] = _joined(pod.get("affinity", {}), _json(settings.affinity))
    if settings.topology_spread_constraints:
        selector = {"matchLabels": {key: labels[key] for key in _SELECTED_BY}}
        pod["topologySpreadConstraints"] = [
            _spread(one, selector) for one in settings.topology_spread_constraints
        ]
    if settings.tolerations:
        pod["tolerations"] = [*pod.get("tolerations", ()), *parts.tolerations(settings.tolerations)]
    if settings.node_selector:
        pod["nodeSelector"] = pod.get("nodeSelector", {}) | settings.node_selector


def _spread(one: TopologySpread, selector: Json) -> Json:
    return {"labelSelector": selector, **_json(one)}


def _fill_main(main: Json, settings: PodSettings) -> None:
    main["env"] = [*main.get("env", ()), *_json_of(settings.env)]
    main["volumeMounts"] = [*main.get("volumeMounts", ()), *_json_of(settings.volume_mounts)]
    if settings.probes is not None:
        for name, numbers in settings.probes:
            # A route front has no startup probe: it serves at once.
            if numbers is not None and f"{name}Probe" in main:
                main[f"{name}Probe"] |= _json(numbers)


def _container(one: ExtraContainer) -> Json:
    given = _json(one)
    read_only = given.pop("readOnlyRootFilesystem", True)
    return given | {
        "resources": parts.resources(one.resources),
        "securityContext": parts.container_security() | {"readOnlyRootFilesystem": read_only},
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _with_aliases(present: Iterable[Json], added: Iterable[HostAlias]) -> list[Json]:
    """Return the lines of a hosts file: one for each address, as Kubernetes keeps them by it."""
    by_address = {one["ip"]: list(one["hostnames"]) for one in present}
    for one in added:
        names = by_address.setdefault(one.ip, [])
        names += [name for name in one.hostnames if name not in names]
    return [{"ip": ip, "hostnames": names} for ip, names in by_address.items()]


def _joined(one: Json, other: Json) -> Json:
    """Return both maps in one: maps below are joined, and lists follow one another."""
    result = dict(one)
    for name, value in other.items():
        former = result.get(name)
        if isinstance(former, dict) and isinstance(value, dict):
            result[name] = _joined(former, value)
        elif isinstance(former, list) and isinstance(value, list):
            result[name] = [*former, *value]
        else:
            result[name] = value
    return result


def _json(model: BaseModel) -> Json:
    found: Json = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _json_of(models: Iterable[Any] | None) -> list[Json]:
    return [_json(one) for one in models or ()]
