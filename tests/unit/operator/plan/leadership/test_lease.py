"""The Lease: who acts, and that two never do."""

from datetime import UTC, datetime
from typing import Any

import pytest

from rocketmq_operator.plan.leadership.lease import (
    DURATION_S,
    RENEW_DEADLINE_S,
    LeaseAction,
    LeaseSighting,
    lease_action,
    lease_body,
    may_act,
    sighting_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _lease(holder: str, version: str = "7") -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": version},
        "spec": {"holderIdentity": holder, "leaseTransitions": 3},
    }


@pytest.mark.parametrize(
    ("name", "lease", "age_s", "expected"),
    [
        ("nobody had it", None, 0.0, LeaseAction.TAKE),
        ("its holder let it go", _lease(""), 0.0, LeaseAction.TAKE),
        ("it is ours", _lease("me"), 0.0, LeaseAction.RENEW),
        ("it is ours and old", _lease("me"), 100.0, LeaseAction.RENEW),
        ("it is fresh", _lease("you"), DURATION_S - 0.1, LeaseAction.WATCH),
        ("it is old", _lease("you"), DURATION_S, LeaseAction.TAKE),
    ],
)
def test_what_is_done_with_a_lease(
    name: str, lease: dict[str, Any] | None, age_s: float, expected: LeaseAction
) -> None:
    assert lease_action(lease, "me", LeaseSighting("7", 0.0), age_s) is expected


def test_a_renewed_lease_is_fresh_again() -> None:
    first = sighting_of(_lease("you", "7"), None, 0.0)
    same = sighting_of(_lease("you", "7"), first, 14.0)
    renewed = sighting_of(_lease("you", "8"), same, 14.0)
    assert lease_action(_lease("you", "7"), "me", same, 15.0) is LeaseAction.TAKE
    assert lease_action(_lease("you", "8"), "me", renewed, 15.0) is LeaseAction.WATCH


def test_a_holder_is_quiet_before_another_may_act() -> None:
    assert RENEW_DEADLINE_S < DURATION_S
    assert may_act(0.0, RENEW_DEADLINE_S - 0.1)
    assert not may_act(0.0, RENEW_DEADLINE_S)
    assert not may_act(None, 0.0)


def test_of_two_who_take_it_at_once_the_second_carries_an_old_version() -> None:
    body = lease_body(_lease("you"), "system", "me", NOW)
    assert body["metadata"]["resourceVersion"] == "7"
    assert body["spec"]["holderIdentity"] == "me"
    assert body["spec"]["leaseTransitions"] == 4


def test_a_renewal_is_no_transition() -> None:
    assert lease_body(_lease("me"), "system", "me", NOW)["spec"]["leaseTransitions"] == 3


def test_a_lease_that_came_with_a_release_stays_recognisable_as_its() -> None:
    lease: dict[str, Any] = {"metadata": {"resourceVersion": "7", "labels": {"app": "demo"}}}
    assert lease_action(lease, "me", LeaseSighting("7", 0.0), 0.0) is LeaseAction.TAKE
    body = lease_body(lease, "system", "me", NOW)
    assert body["metadata"]["labels"] == {"app": "demo"}
    assert body["spec"]["holderIdentity"] == "me"
