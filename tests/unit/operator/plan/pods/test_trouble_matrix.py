"""A resource is never settled while one of its members is in trouble: each kind of member with each trouble.

For each pair the status names the reason and the object, and `kubectl rmqha explain` says what to do. The
last tests do the same for each object that the operator writes, with a webhook that changes a field of it.
"""

from collections.abc import Callable
from typing import Any

import pytest

from rocketmq_operator.plugin.advice import ADVICE
from rocketmq_operator.plugin.queries import observe_group
from rocketmq_operator.plugin.rendering import explain_lines
from testkit.memory.membership import NAMESPACE
from testkit.memory.pod_faults import PodFault
from testkit.worlds.members import (
    CLUSTER,
    GROUP,
    KINDS,
    WITH_VOLUME,
    MemberKind,
    break_member,
    forbid,
    passes,
    progress,
    settled,
)
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
Trouble = Callable[[OperatorWorld, MemberKind], None]


def _broken(fault: PodFault) -> Trouble:
    return lambda world, kind: break_member(world, kind, fault)


def _claim_forbidden(world: OperatorWorld, kind: MemberKind) -> None:
    """Let a quota refuse a member's claim, and so its pod."""
    world.kube.forbidden[kind.pod] = (
        f'persistentvolumeclaims "data-{kind.pod}" is forbidden: exceeded quota: team'
    )
    world.kube.remove("Pod", NAMESPACE, kind.pod)
    world.kube.remove("PersistentVolumeClaim", NAMESPACE, f"data-{kind.pod}")


def _claim_pending(world: OperatorWorld, kind: MemberKind) -> None:
    """Give a member's claim no volume: the scheduler does not place its pod."""
    claim = world.get("PersistentVolumeClaim", f"data-{kind.pod}")
    claim["spec"]["storageClassName"] = "fast"
    claim["status"] = {"phase": "Pending"}
    break_member(world, kind, PodFault.UNBOUND)


def _claim_terminating(world: OperatorWorld, kind: MemberKind) -> None:
    """Delete the claim of a member that serves."""
    claim = world.get("PersistentVolumeClaim", f"data-{kind.pod}")
    claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _down(world: OperatorWorld, kind: MemberKind) -> None:
    """Let one replica fail its probe without a word; of two proxies, one."""
    world.kube.unready.add(kind.pod)
    world.kube.settle()


TROUBLES: dict[str, tuple[Trouble, str, str]] = {
    "quota of pods": (forbid, "FailedCreate", "exceeded quota: team"),
    "quota of claims": (_claim_forbidden, "FailedCreate", "exceeded quota: team"),
    "unschedulable": (_broken(PodFault.UNSCHEDULABLE), "Unschedulable", "Insufficient cpu"),
    "image": (_broken(PodFault.IMAGE), "ImageNotPulled", "image "),
    "crash loop": (_broken(PodFault.CRASH), "CrashLoop", "cannot open /data: no space left"),
    "memory": (_broken(PodFault.MEMORY), "OOMKilled", "more memory than its limit"),
    "claim pending": (_claim_pending, "VolumePending", "of storage class fast is not bound"),
    "claim terminating": (_claim_terminating, "VolumeTerminating", "is being deleted"),
    "one replica down": (_down, "MemberNotReady", "ready"),
}
OF_VOLUMES = {"quota of claims", "claim pending", "claim terminating"}
CELLS = [
    pytest.param(KINDS[kind], TROUBLES[trouble], id=f"{kind}, {trouble}")
    for kind in KINDS
    for trouble in TROUBLES
    if kind in WITH_VOLUME or trouble not in OF_VOLUMES
]


async def _explained(world: OperatorWorld) -> str:
    return "\n".join(explain_lines(await observe_group(world.kube, NAMESPACE, "orders")))


def _assert_not_settled(world: OperatorWorld, resource: tuple[str, str]) -> None:
    text = str(world.status(*resource)["conditions"])
    assert "Settled" not in text
    assert "nothing is left to do" not in text


@pytest.mark.parametrize(("kind", "trouble"), CELLS)
async def test_a_member_in_trouble_is_named_and_explained(
    kind: MemberKind, trouble: tuple[Trouble, str, str]
) -> None:
    world = await settled()
    cause, reason, words = trouble
    cause(world, kind)
    await passes(world)
    status, reason_now, message = progress(world, kind.resource)
    assert (status, reason_now) == ("True", reason), message
    assert f"{kind.member}: {reason}: " in message
    assert words in message
    assert world.status(*kind.resource)["reason"] == reason
    _assert_not_settled(world, kind.resource)
    explained = await _explained(world)
    assert message in explained
    assert ADVICE[reason] in explained


@pytest.mark.parametrize("trouble", ["image", "crash loop", "memory", "unschedulable"])
async def test_a_proxy_beside_one_that_serves_is_named_and_explained(trouble: str) -> None:
    world = await settled()
    kind = KINDS["proxy"]
    cause, reason, words = TROUBLES[trouble]
    cause(world, kind)
    world.kube.unready.discard("main-proxy")
    world.kube.unready.add(kind.pod)
    world.kube.settle()
    await passes(world)
    assert world.condition("ProxyReady", *CLUSTER) == ("True", "Serving")
    status, reason_now, message = progress(world, CLUSTER)
    assert (status, reason_now) == ("True", reason), message
    assert words in message
    assert ADVICE[reason] in await _explained(world)


def _change_a_field(value: Json) -> str:
    """Change one field of an object, as a policy would; return its path."""
    match value["kind"]:
        case "StatefulSet" | "Deployment":
            value["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 7
            return "spec.template.spec.terminationGracePeriodSeconds"
        case "ConfigMap":
            key = min(value["data"])
            value["data"][key] += "# policy\n"
            return f"data.{key}"
        case "Service":
            value["spec"]["ports"][0]["port"] += 1
            return "spec.ports"
        case "EndpointSlice":
            value["metadata"]["labels"]["kubernetes.io/service-name"] = "elsewhere"
            return "metadata.labels.kubernetes.io/service-name"
        case "PodDisruptionBudget":
            value["spec"]["maxUnavailable"] = 2
            return "spec.maxUnavailable"
        case _:
            value["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "policy"
            return "metadata.labels"


REWRITTEN = [
    ("StatefulSet", "orders", GROUP),
    ("StatefulSet", "orders-log", GROUP),
    ("ConfigMap", "orders", GROUP),
    ("Service", "orders", GROUP),
    ("Service", "orders-1", GROUP),
    ("Service", "orders-log-0", GROUP),
    ("EndpointSlice", "orders-1", GROUP),
    ("PodDisruptionBudget", "orders", GROUP),
    ("StatefulSet", "main-controller", CLUSTER),
    ("StatefulSet", "main-nameserver", CLUSTER),
    ("Deployment", "main-proxy", CLUSTER),
    ("ConfigMap", "main-controller", CLUSTER),
    ("ConfigMap", "main-nameserver", CLUSTER),
    ("ConfigMap", "main-proxy", CLUSTER),
    ("Secret", "main-controller-token", CLUSTER),
    ("Service", "main-controller", CLUSTER),
    ("Service", "main-controller-1", CLUSTER),
    ("Service", "main-nameserver-1", CLUSTER),
    ("Service", "main-proxy", CLUSTER),
    ("PodDisruptionBudget", "main-proxy", CLUSTER),
]


@pytest.mark.parametrize(
    ("object_kind", "name", "resource"), REWRITTEN, ids=[f"{one[0]} {one[1]}" for one in REWRITTEN]
)
async def test_an_object_that_a_webhook_changes_is_named_and_explained(
    object_kind: str, name: str, resource: tuple[str, str]
) -> None:
    world = OperatorWorld(
        {"replicas": 2, "logReplicas": 1}, {"nameServers": {"replicas": 2}, "proxy": {"mode": "Cluster"}}
    )
    paths: set[str] = set()

    def webhook(value: Json) -> None:
        if (value["kind"], value["metadata"]["name"]) == (object_kind, name):
            paths.add(_change_a_field(value))

    world.kube.webhook = webhook
    await passes(world, 12)
    assert paths, "the operator wrote the object"
    status, reason, message = progress(world, resource)
    assert (status, reason) == ("True", "FieldRewritten"), message
    assert f"{object_kind} {name}: {paths.pop()}" in message
    _assert_not_settled(world, resource)
    explained = await _explained(world)
    assert message in explained
    assert ADVICE["FieldRewritten"] in explained
