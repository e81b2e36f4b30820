"""A field that an admission webhook changes within each write is left so, and named.

Other differences are written.
"""

from typing import Any

from rocketmq_operator.api.names import FIELD_MANAGER
from rocketmq_operator.plan.common.actions import with_digest
from rocketmq_operator.plan.common.rewritten_fields import describe_rewritten_field
from testkit.memory.managed_fields import fields_of
from testkit.memory.membership import NAMESPACE
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
WANTED = with_digest(
    {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "orders", "namespace": NAMESPACE},
        "spec": {
            "replicas": 2,
            "template": {
                "spec": {
                    "terminationGracePeriodSeconds": 60,
                    "containers": [{"name": "broker", "image": "rocketmq:5", "command": ["sh", "start"]}],
                }
            },
        },
    }
)


def live(pod: Json | None = None, *, others: Json | None = None, owned: Json | None = None) -> Json:
    """Return the object with these fields of its pod, and with these owned by a person and not by us."""
    template = {"spec": WANTED["spec"]["template"]["spec"] | (pod or {})}
    managed = [{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields_of(owned or WANTED)}]
    if others is not None:
        managed.append({"manager": "kubectl-edit", "operation": "Update", "fieldsV1": fields_of(others)})
    return WANTED | {
        "metadata": WANTED["metadata"] | {"managedFields": managed},
        "spec": WANTED["spec"] | {"template": template},
    }


def shorten(value: Json) -> None:
    """Do what a policy of short grace periods does."""
    if value["kind"] == "StatefulSet":
        value["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 30


async def test_a_webhook_that_changes_a_field_is_told_of_and_everything_else_goes_on() -> None:
    world = OperatorWorld({"replicas": 2})
    world.kube.webhook = shorten
    for _ in range(12):
        await world.one_pass()
        world.advance(10)
    assert world.condition("Ready") == ("True", "Serving")
    (progress,) = [one for one in world.status()["conditions"] if one["type"] == "Progressing"]
    assert (progress["status"], progress["reason"]) == ("True", "FieldRewritten")
    assert progress["message"] == (
        "StatefulSet orders: spec.template.spec.terminationGracePeriodSeconds is 30, not 60: "
        "a mutating admission webhook changes it"
    )
    assert world.status()["reason"] == "FieldRewritten"
    writes = len(world.kube.writes)
    await world.one_pass()
    assert world.kube.writes[writes:] == [], "no fight"


async def test_a_new_spec_is_written_whatever_the_webhook_changes() -> None:
    world = OperatorWorld({"replicas": 2})
    world.kube.webhook = shorten
    for _ in range(6):
        await world.one_pass()
        world.advance(10)
    world.write_group({"replicas": 3})
    for _ in range(6):
        await world.one_pass()
        world.advance(10)
    assert world.has("Pod", "orders-2")


def test_a_value_that_a_person_wrote_is_written_over() -> None:
    grace = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 30}}}}
    spec = WANTED["spec"]["template"]["spec"]
    left = {"spec": {"template": {"spec": {"containers": spec["containers"]}}}}
    assert (
        describe_rewritten_field(
            live({"terminationGracePeriodSeconds": 30}, others=grace, owned=left), WANTED
        )
        == ""
    )


def test_an_object_of_a_former_digest_is_written() -> None:
    changed = with_digest(WANTED | {"spec": WANTED["spec"] | {"replicas": 3}})
    assert describe_rewritten_field(live({"terminationGracePeriodSeconds": 30}), changed) == ""


def test_a_field_of_an_entry_of_a_list_is_named_by_the_entry() -> None:
    container = WANTED["spec"]["template"]["spec"]["containers"][0]
    changed = [container | {"image": "mirror/rocketmq:5"}]
    assert describe_rewritten_field(live({"containers": changed}), WANTED) == (
        'StatefulSet orders: spec.template.spec.containers[broker].image is "mirror/rocketmq:5", '
        'not "rocketmq:5": a mutating admission webhook changes it'
    )


def test_a_list_that_is_owned_as_a_whole_is_told_of() -> None:
    container = WANTED["spec"]["template"]["spec"]["containers"][0]
    changed = [container | {"command": ["sh", "start", "--traced"]}]
    assert "containers[broker].command is [sh, start, --traced], not [sh, start]" in describe_rewritten_field(
        live({"containers": changed}), WANTED
    )


def test_a_container_that_somebody_added_is_told_of_with_its_manager() -> None:
    added = [*WANTED["spec"]["template"]["spec"]["containers"], {"name": "mesh", "image": "mesh:1"}]
    mesh = {"spec": {"template": {"spec": {"containers": [{"name": "mesh", "image": "mesh:1"}]}}}}
    assert describe_rewritten_field(live({"containers": added}, others=mesh), WANTED) == (
        "StatefulSet orders: spec.template.spec.containers is [broker, mesh], not [broker]: "
        "kubectl-edit changes it"
    )


def test_a_container_that_somebody_removed_is_written_again() -> None:
    assert describe_rewritten_field(live({"containers": []}), WANTED) == ""


def test_an_object_that_does_not_say_who_owns_its_fields_is_written() -> None:
    bare = live({"terminationGracePeriodSeconds": 30})
    del bare["metadata"]["managedFields"]
    assert describe_rewritten_field(bare, WANTED) == ""
