"""The operator's pods under OpenShift's `restricted-v2` and Kubernetes' restricted profile.

Source: OpenShift 4.16 SecurityContextConstraints restricted-v2; Kubernetes 1.34 Pod Security Standards.
"""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from testkit.worlds.pod_templates import PATHS, template, workloads

Json = dict[str, Any]
VOLUMES: Final = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim"}
    | {"projected", "secret"}
)
IDS: Final = ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions")
NONE_CHOSEN: Final[Json] = {"securityContext": {}}
BESIDE: Final[Json] = {"containers": [{"name": "logs", "image": "logs:1"}]}


def _of_all(settings: Json) -> dict[str, Json]:
    cluster = {part: {"pod": settings} for part in ("controllers", "nameServers", "proxy", "routeFronts")}
    found = workloads(cluster, {"pod": settings, "logPod": settings})
    return {name: template(body)["spec"] for name, body in found.items()}


def _violations(pod: Json) -> Iterator[str]:
    """Yield why restricted-v2 refuses a pod."""
    context = pod.get("securityContext", {})
    yield from (f"{name} is fixed" for name in IDS if name in context)
    yield from (f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name))
    if context.get("runAsNonRoot") is not True:
        yield "may be root"
    if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "seccomp"
    for volume in pod["volumes"]:
        yield from (f"volume {name}" for name in volume.keys() - VOLUMES - {"name"})
    for one in (*pod.get("initContainers", []), *pod["containers"]):
        own = one["securityContext"]
        yield from (f"{one['name']}: {name} is fixed" for name in IDS if name in own)
        if own.get("privileged") or own.get("allowPrivilegeEscalation") is not False:
            yield f"{one['name']}: privileges"
        if own["capabilities"] != {"drop": ["ALL"]}:
            yield f"{one['name']}: capabilities"
        yield from (f"{one['name']}: host port" for port in one.get("ports", []) if port.get("hostPort"))


@pytest.mark.parametrize("component", list(PATHS))
def test_a_platform_that_chooses_users_takes_the_pods(component: str) -> None:
    pod = _of_all(NONE_CHOSEN | BESIDE)[component]
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert list(_violations(pod)) == []


@pytest.mark.parametrize("component", list(PATHS))
def test_without_the_field_users_are_those_of_the_images(component: str) -> None:
    pod = _of_all(BESIDE)[component]
    assert list(_violations(pod)) == [f"{name} is fixed" for name in IDS[:3]]


@pytest.mark.parametrize("component", list(PATHS))
def test_what_any_user_must_read_is_readable_by_its_group_or_all(component: str) -> None:
    pod = _of_all(NONE_CHOSEN)[component]
    for volume in pod["volumes"]:
        mode = (volume.get("configMap") or volume.get("secret") or {}).get("defaultMode")
        assert mode is None or mode & 0o040, volume["name"]
