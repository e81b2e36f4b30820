"""Comparing desired and existing objects."""

from typing import Any

import pytest

from rocketmq_operator.plan.common.actions import Apply, child_steps
from rocketmq_operator.plan.common.objects import Owner, by_key, child, covers, quantity

OWNER = Owner("rocketmq-ha.dev/v1alpha1", "BrokerGroup", "orders", "shop", "uid-1")


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        ({"a": 1, "added": 2}, {"a": 1}, True),
        ({"a": 2}, {"a": 1}, False),
        ({}, {"a": 1}, False),
        ({"a": {"b": [{"c": 1, "added": 0}]}}, {"a": {"b": [{"c": 1}]}}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}, True),
        ({"cpu": "500m"}, {"cpu": "0.5"}, True),
        ({"cpu": "500m"}, {"cpu": "5"}, False),
        ({"name": "1Gi-disk"}, {"name": "1024Mi-disk"}, False),
        ("None", {"a": 1}, False),
    ],
)
def test_what_is_there_covers_what_is_wanted(live: Any, wanted: Any, expected: bool) -> None:
    assert covers(live, wanted) is expected


def test_quantities_have_values() -> None:
    assert quantity("1.5Gi") == 1.5 * 2**30
    assert quantity("100m") == quantity("0.1")
    assert quantity("many") is None


def _config(data: dict[str, str]) -> dict[str, Any]:
    return child(OWNER, "ConfigMap", "orders", labels={}, data=data)


def test_a_field_that_is_no_longer_wanted_makes_a_step() -> None:
    first = child_steps(OWNER, [_config({"a": "1", "b": "2"})], {}).steps[0]
    assert isinstance(first, Apply)
    live = by_key([first.body])
    assert child_steps(OWNER, [_config({"a": "1", "b": "2"})], live).steps == ()
    assert len(child_steps(OWNER, [_config({"a": "1"})], live).steps) == 1


def test_a_field_that_somebody_changed_makes_a_step() -> None:
    first = child_steps(OWNER, [_config({"a": "1"})], {}).steps[0]
    assert isinstance(first, Apply)
    changed = first.body | {"data": {"a": "2"}}
    assert len(child_steps(OWNER, [_config({"a": "1"})], by_key([changed])).steps) == 1


def test_an_object_of_somebody_else_is_left_alone() -> None:
    stranger = _config({"a": "1"})
    stranger["metadata"]["ownerReferences"][0]["uid"] = "uid-2"
    plan = child_steps(OWNER, [_config({"a": "1"})], by_key([stranger]))
    assert plan.steps == ()
    assert plan.wait is not None
    assert plan.wait.reason == "NameTaken"
