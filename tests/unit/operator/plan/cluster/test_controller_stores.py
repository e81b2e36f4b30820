"""Whether a controller lost its store, from what its leader and it say of the store."""

from collections.abc import Callable

import pytest

from controller_core.server.peers.greeting_rules import store_fingerprint
from rocketmq_operator.plan.cluster.observed_controllers import ControllerRole, ObservedController


@pytest.mark.parametrize(
    ("own", "has_log", "lost"),
    [
        ("joined", True, False),
        ("joined", False, False),
        ("another", False, True),
        ("another", True, False),
        ("", None, False),
    ],
    ids=["well", "learns", "empty", "a log that is somebody else's", "silent"],
)
def test_a_store_is_lost_when_another_and_empty_one_is_in_its_place(
    own: str, has_log: bool | None, lost: bool
) -> None:
    seen = ObservedController(1, ControllerRole.VOTER, member_store="joined", own_store=own, has_log=has_log)
    assert seen.lost_its_store is lost


@pytest.mark.parametrize("own_shown", [str, store_fingerprint], ids=["own of before", "own of now"])
@pytest.mark.parametrize("member_shown", [str, store_fingerprint], ids=["leader of before", "leader of now"])
def test_a_store_is_told_from_another_whichever_release_the_controllers_have(
    own_shown: Callable[[str], str], member_shown: Callable[[str], str]
) -> None:
    joined, another = "1f6c0e1d55b7a902", "8f14e45fceea167a"

    def lost(own: str) -> bool:
        return ObservedController(
            1,
            ControllerRole.LEARNER,
            member_store=member_shown(joined),
            own_store=own_shown(own),
            has_log=False,
        ).lost_its_store

    assert not lost(joined), "a learner that waits for its log has not lost it"
    assert lost(another)
