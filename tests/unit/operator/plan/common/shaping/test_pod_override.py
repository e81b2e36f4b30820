"""The strategic merge of pod templates: laws that hold for any two of them, and one example for each rule."""

import copy
from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_operator.plan.common.shaping.override import MERGE_KEYS, PodRefusedError, merge_pod

Json = dict[str, Any]
NAMES: Final = st.sampled_from(["a", "b", "c"])
SCALARS: Final = st.one_of(st.booleans(), st.integers(0, 3), st.text("xy", max_size=2))
ENV: Final = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": NAMES, "value": st.text("xy", max_size=2)}),
        st.fixed_dictionaries({"name": NAMES, "valueFrom": st.just({"fieldRef": {"fieldPath": "x"}})}),
    ),
    max_size=3,
    unique_by=lambda one: one["name"],
)
PORTS: Final = st.lists(
    st.fixed_dictionaries(
        {"containerPort": st.integers(1, 3)},
        optional={"name": NAMES, "protocol": st.sampled_from(["TCP", "UDP"])},
    ),
    max_size=3,
    unique_by=lambda one: (one["containerPort"], one.get("protocol", "TCP")),
)
CONTAINERS: Final = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "image": NAMES,
            "args": st.lists(NAMES, max_size=2),
            "env": ENV,
            "ports": PORTS,
            "resources": st.dictionaries(st.sampled_from(["requests", "limits"]), st.just({"cpu": "1"})),
        },
    ),
    max_size=3,
    unique_by=lambda one: one["name"],
)
PODS: Final = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS,
        "volumes": st.lists(
            st.fixed_dictionaries(
                {"name": NAMES}, optional={"emptyDir": st.just({}), "csi": st.just({"driver": "x"})}
            ),
            max_size=3,
            unique_by=lambda one: one["name"],
        ),
        "tolerations": st.lists(st.fixed_dictionaries({"key": NAMES}), max_size=2),
        "nodeSelector": st.dictionaries(NAMES, NAMES, max_size=2),
        "priority": st.integers(0, 3),
        "affinity": st.dictionaries(NAMES, st.dictionaries(NAMES, SCALARS, max_size=2), max_size=2),
    },
)


def says(value: Any, patch: Any, name: str = "") -> bool:
    """Tell whether a value is as a patch without directives wants it."""
    if isinstance(patch, Mapping):
        return isinstance(value, Mapping) and all(
            key in value and says(value[key], part, key) for key, part in patch.items()
        )
    if isinstance(patch, list) and name in MERGE_KEYS:
        return all(any(says(one, wanted) for one in value) for wanted in patch)
    return bool(value == patch)


@given(PODS, PODS)
def test_the_result_says_what_the_patch_says(base: Json, patch: Json) -> None:
    assert says(merge_pod(base, patch), patch)


@given(PODS)
def test_nothing_laid_over_a_pod_or_a_pod_over_nothing_is_that_pod(pod: Json) -> None:
    assert merge_pod(pod, {}) == merge_pod({}, pod) == merge_pod(pod, pod) == pod


@given(PODS, PODS)
def test_a_patch_applied_twice_is_a_patch_applied_once(base: Json, patch: Json) -> None:
    once = merge_pod(base, patch)
    assert merge_pod(once, patch) == once


@given(PODS, PODS, PODS)
def test_two_patches_may_be_merged_first(base: Json, first: Json, second: Json) -> None:
    assert merge_pod(merge_pod(base, first), second) == merge_pod(base, merge_pod(first, second))


@given(PODS, PODS)
def test_neither_side_changes(base: Json, patch: Json) -> None:
    before = copy.deepcopy((base, patch))
    result = merge_pod(base, patch)
    for one in result.get("containers", []):
        one["changed"] = one.setdefault("resources", {})["changed"] = True
    assert (base, patch) == before


@given(PODS, PODS)
def test_what_the_patch_does_not_name_stays_in_its_place(base: Json, patch: Json) -> None:
    result = merge_pod(base, patch)
    for name, value in base.items():
        if name not in patch:
            assert result[name] == value
        elif name in MERGE_KEYS:
            named = [one["name"] for one in value]
            assert [one["name"] for one in result[name]][: len(named)] == named
            untouched = [one for one in value if one["name"] not in {other["name"] for other in patch[name]}]
            assert [one for one in result[name] if one in untouched] == untouched


@given(PODS, st.lists(st.sampled_from(["containers", "volumes"]), unique=True))
def test_an_entry_that_is_deleted_is_gone_and_the_others_stay(base: Json, lists: list[str]) -> None:
    for name in lists:
        result = merge_pod(base, {name: [{"name": "a", "$patch": "delete"}]})
        assert result.get(name, []) == [one for one in base.get(name, []) if one["name"] != "a"]


EXAMPLES: Final[dict[str, tuple[Json, Json, Json]]] = {
    "null removes": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    "a map is deleted": ({"a": {"x": 1}, "b": 2}, {"a": {"$patch": "delete"}}, {"b": 2}),
    "a map is replaced": ({"a": {"x": 1}}, {"a": {"$patch": "replace", "y": 2}}, {"a": {"y": 2}}),
    "a list without a key is replaced": ({"args": ["x", "y"]}, {"args": ["z"]}, {"args": ["z"]}),
    "a list with a key is replaced when asked": (
        {"volumes": [{"name": "a"}]},
        {"volumes": [{"$patch": "replace"}, {"name": "b"}]},
        {"volumes": [{"name": "b"}]},
    ),
    "ports differ by protocol": (
        {"ports": [{"containerPort": 53}]},
        {"ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "name": "dns"}]},
        {"ports": [{"containerPort": 53, "name": "dns"}, {"containerPort": 53, "protocol": "UDP"}]},
    ),
    "a variable has one value": (
        {"env": [{"name": "A", "value": "1"}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
    ),
    "containers are merged at any depth": (
        {"containers": [{"name": "a", "livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 2}}]},
        {"containers": [{"name": "a", "livenessProbe": {"periodSeconds": 9}}]},
        {"containers": [{"name": "a", "livenessProbe": {"tcpSocket": {"port": 1}, "periodSeconds": 9}}]},
    ),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example: str) -> None:
    base, patch, expected = EXAMPLES[example]
    assert merge_pod(base, patch) == expected


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ({"containers": [{"image": "x"}]}, "spec.containers has an entry without name"),
        ({"containers": ["x"]}, "spec.containers has an entry without name"),
        ({"ports": [{"name": "x"}]}, "spec.ports has an entry without containerPort"),
        ({"$setElementOrder/containers": []}, r"spec.\$setElementOrder/containers is unknown"),
        ({"containers": [{"name": "a", "$patch": "merge"}]}, r"spec.containers\[a\].\$patch is 'merge'"),
        ({"affinity": {"$retainKeys": ["x"]}}, r"spec.affinity.\$retainKeys is unknown"),
    ],
)
def test_a_patch_that_cannot_be_read_is_refused_with_its_place(patch: Json, words: str) -> None:
    with pytest.raises(PodRefusedError, match=words):
        merge_pod({}, patch, "spec")
