"""Which word of several controllers counts."""

from hypothesis import given
from hypothesis import strategies as st

from ha_sidecar.decisions.majority import (
    COUNT_KEPT_S,
    ControllerAnswer,
    ControllerCount,
    NamedLeader,
    address_of,
    majority_of,
    named_leader,
)

A, B = NamedLeader("n0", "a:1"), NamedLeader("n1", "b:1")


def test_more_than_half_must_say_the_same() -> None:
    assert majority_of(["x", "x", "y"], 3) == "x"
    assert majority_of(["x", "y"], 3) is None
    assert majority_of(["x", "x"], 4) is None
    assert majority_of([], 1) is None


@given(st.lists(st.sampled_from("xyz"), max_size=7), st.integers(min_value=0, max_value=7))
def test_no_two_values_have_a_majority(values: list[str], silent: int) -> None:
    found = majority_of(values, len(values) + silent)
    assert found is None or 2 * values.count(found) > len(values) + silent


def test_the_number_of_controllers_is_the_one_that_a_majority_tells() -> None:
    assert ControllerCount(5).learn([3, 3], 0.0) == 3
    assert ControllerCount(5).learn([3, 3, 1000], 0.0) == 3
    assert ControllerCount(3).learn([1, 3, 3], 0.0) == 3


def test_without_a_majority_the_larger_number_counts_but_none_above_the_list() -> None:
    assert ControllerCount(5).learn([1, 3], 0.0) == 3
    assert ControllerCount(5).learn([1000, 3], 0.0) == 5
    assert ControllerCount(5).learn([0], 0.0) == 5, "it does not say"
    assert ControllerCount(5).learn([], 0.0) == 5


def test_one_controller_that_is_alone_for_a_moment_is_no_group_of_one() -> None:
    count = ControllerCount(3)
    assert count.learn([3, 3, 3], 0.0) == 3
    assert count.learn([1], COUNT_KEPT_S - 1) == 3
    assert count.learn([1], COUNT_KEPT_S + 1) == 1, (
        "no other controller answered for that long: the count is one"
    )


def test_a_group_that_shrinks_or_grows_is_believed_by_its_majority() -> None:
    count = ControllerCount(7)
    assert count.learn([5, 5, 5], 0.0) == 5
    assert count.learn([3, 3, 3], 1.0) == 3
    assert count.learn([4, 4, 3], 2.0) == 4


def test_a_leader_is_who_a_majority_names_and_not_who_claims_to_be_it() -> None:
    views = {"a:1": ControllerAnswer(3, A, leads=True), "b:1": ControllerAnswer(3, B, leads=True)}
    assert named_leader(views, 3) is None
    views["c:1"] = ControllerAnswer(3, A)
    assert named_leader(views, 3) == A
    assert named_leader({"c:1": ControllerAnswer(3, None)}, 1) is None


def test_a_leader_that_goes_by_another_address_is_the_only_one_that_claims_to_be_it() -> None:
    views = {"x:1": ControllerAnswer(3, A, leads=True), "y:1": ControllerAnswer(3, A)}
    assert address_of(A, views, ["x:1", "y:1"]) == "x:1"
    assert address_of(A, views, ["a:1", "x:1"]) == "a:1"
    views["y:1"] = ControllerAnswer(3, A, leads=True)
    assert address_of(A, views, ["x:1", "y:1"]) is None
