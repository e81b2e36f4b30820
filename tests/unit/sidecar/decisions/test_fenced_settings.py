"""What a fence sets of a broker, and what it gives back."""

import pytest

from controller_core.broker_settings import FENCED_MS
from ha_sidecar.decisions.fenced_settings import CLOSED_BASE, FencedSettings


@pytest.mark.parametrize("had", [FencedSettings(1, 0), FencedSettings(2, 1_795_000_000_000)])
def test_a_closed_fence_keeps_in_the_settings_what_it_gives_back(had: FencedSettings) -> None:
    closed = had.closed()
    assert (closed.min_in_sync, closed.sends_from_ms) == (
        CLOSED_BASE + had.min_in_sync,
        FENCED_MS + had.sends_from_ms,
    )
    assert closed.is_closed
    assert closed.opened() == had


def test_a_closed_fence_that_is_closed_again_stays_the_same() -> None:
    closed = FencedSettings(2, 7).closed()
    assert closed.closed() == closed


@pytest.mark.parametrize("half", [FencedSettings(CLOSED_BASE + 2, 7), FencedSettings(2, FENCED_MS + 7)])
def test_a_fence_that_somebody_half_undid_is_closed_and_opened_whole(half: FencedSettings) -> None:
    assert half.closed() == FencedSettings(CLOSED_BASE + 2, FENCED_MS + 7)
    assert half.opened() == FencedSettings(2, 7)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, None),
        ({"minInSyncReplicas": "two"}, None),
        ({"minInSyncReplicas": "2"}, FencedSettings(2, 0)),
        ({"minInSyncReplicas": "2", "startAcceptSendRequestTimeStamp": "-1"}, FencedSettings(2, 0)),
        ({"minInSyncReplicas": "2", "startAcceptSendRequestTimeStamp": "9"}, FencedSettings(2, 9)),
    ],
)
def test_a_broker_that_does_not_say_its_least_copies_cannot_be_fenced(
    settings: dict[str, str], expected: FencedSettings | None
) -> None:
    assert FencedSettings.of(settings) == expected
