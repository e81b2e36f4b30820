"""Server-side apply by others: the operator owns nothing of a spec, and leaves what is theirs."""

import copy
from typing import Any

import pytest

from rocketmq_operator.api.names import FIELD_MANAGER, OUR_KINDS
from rocketmq_operator.plan.common.actions import child_steps, with_digest
from rocketmq_operator.plan.common.objects import Owner, by_key, child
from testkit.memory.kubernetes import MemoryKube
from testkit.memory.managed_fields import fields_of
from testkit.memory.membership import NAMESPACE
from testkit.worlds.metadata import TOPIC, MetadataWorld
from testkit.worlds.operator import GROUP, OperatorWorld

Json = dict[str, Any]
OWNER = Owner("rocketmq-ha.dev/v1alpha1", "BrokerGroup", GROUP, NAMESPACE, "uid-1")
CONFIG = child(OWNER, "ConfigMap", GROUP, labels={}, data={"broker.conf": "a=1\n"})
WRITTEN = with_digest(CONFIG)
TRACKING = "argocd.argoproj.io/tracking-id"
"""The annotation by which Argo CD finds what it applied."""


def applied_by_both(theirs: Json) -> Json:
    """Return our ConfigMap after another manager applied fields of its own, as the API server records it."""
    live = copy.deepcopy(WRITTEN)
    live["metadata"]["labels"] |= theirs["metadata"].get("labels", {})
    live["metadata"]["annotations"] |= theirs["metadata"].get("annotations", {})
    live["data"] |= theirs.get("data", {})
    live["metadata"]["managedFields"] = [
        _entry(FIELD_MANAGER, WRITTEN),
        _entry("argocd-controller", theirs),
    ]
    return live


def _entry(manager: str, body: Json) -> Json:
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields_of(body),
    }


@pytest.mark.parametrize(
    "theirs",
    [
        {"metadata": {"annotations": {TRACKING: "mq:/ConfigMap:mq/orders"}}},
        {"metadata": {"labels": {"team": "payments"}}},
        {"metadata": {}, "data": {"notes": "of somebody else"}},
        {"metadata": {}, "data": {"broker.conf": "a=1\n"}},
    ],
    ids=["tracking", "label", "their own key", "our value"],
)
def test_fields_of_another_manager_stay(theirs: Json) -> None:
    plan = child_steps(OWNER, [CONFIG], by_key([applied_by_both(theirs)]))
    assert (plan.steps, plan.wait, plan.notes) == ((), None, ())


def test_a_field_of_ours_that_another_manager_takes_over_is_written_once() -> None:
    live = applied_by_both({"metadata": {}, "data": {"broker.conf": "a=2\n"}})
    del live["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]
    (step,) = child_steps(OWNER, [CONFIG], by_key([live])).steps
    assert str(step) == f"apply ConfigMap {GROUP} (differs)"
    assert child_steps(OWNER, [CONFIG], by_key([WRITTEN])).steps == ()


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """Return the objects that the operator applies, without their status."""
    bodies: list[Json] = []
    apply = MemoryKube.apply

    async def recorded(kube: MemoryKube, body: Json) -> Json:
        bodies.append(body)
        return await apply(kube, body)

    monkeypatch.setattr(MemoryKube, "apply", recorded)
    return bodies


async def test_the_operator_owns_no_field_of_a_spec(applied: list[Json]) -> None:
    world = OperatorWorld(group={"replicas": 2, "logReplicas": 1})
    await world.settle()
    topics = MetadataWorld()
    topics.put("Topic", "prices", TOPIC | {"deletionPolicy": "Delete"})
    await topics.one_pass()
    written_by_people = {one.kind for one in OUR_KINDS} - {"Failover"}
    own = [body for body in applied if body["kind"] in written_by_people]
    assert own, "the finalizer of a topic is one"
    assert [body["kind"] for body in own if set(body) - {"apiVersion", "kind", "metadata"}] == []
    assert {key for body in own for key in body["metadata"]} <= {"name", "namespace", "uid", "finalizers"}


async def test_an_object_that_another_manager_applies_again_makes_the_operator_write_nothing() -> None:
    world = OperatorWorld(group={"replicas": 2})
    await world.settle()
    writes = len(world.kube.writes)
    for _ in range(3):
        world.write_group({"replicas": 2})
        group = world.get("BrokerGroup", GROUP)
        group["metadata"].setdefault("annotations", {})[TRACKING] = "mq:rocketmq-ha.dev/BrokerGroup:mq/orders"
        await world.one_pass()
    assert world.kube.writes[writes:] == []
    assert world.get("BrokerGroup", GROUP)["metadata"]["annotations"][TRACKING]
