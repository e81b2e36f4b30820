"""How long a first election is held.

The time is `firstElectionWaitMs` after the last member's registration, to the millisecond.
"""

import pytest

from controller_core.groups.keys import BrokerId
from controller_core.remoting import headers
from controller_core.remoting.command import RemotingCommand
from controller_core.server.common.broker_questions import RefusedError
from controller_core.server.elections.first_elections import STRANGER_WAITS, FirstElections
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.settings.config import load
from testkit.clocks.stepped import SteppedClock
from testkit.raft.groups import KEY, GroupsDriver

SETTINGS = {"controllerDLegerGroup": "unit", "controllerDLegerPeers": "n0-127.0.0.1:1"}
WAIT_MS = 30_000
DAY_MS = 86_400_000
SILENT_AFTER_MS = 2 * DAY_MS


class LeaderWithOldMembers:
    """A leader that has taken up members of an earlier life."""

    def __init__(self, *taken_up: int) -> None:
        self.clock = SteppedClock()
        self.driver = GroupsDriver()
        self.hearing = HeartbeatReceiver(self.driver.state, self.clock)
        self.wait_ms = WAIT_MS
        self.elections = FirstElections(
            self.driver.state, self.hearing, self.clock, _no_broker, lambda: self.wait_ms
        )
        for broker_id in taken_up:
            self.take_up(broker_id)

    def take_up(self, broker_id: int) -> None:
        """Record an id; its member is not heard yet."""
        self.driver.register(broker_id, f"a:{broker_id}", take_up=True)
        self.hearing.registered(KEY)

    def hear(self, *broker_ids: int) -> None:
        """Take a heartbeat of each of these members, which tells epoch 4 and the end of its log."""
        for broker_id in broker_ids:
            header = headers.BrokerHeartbeatRequestHeader(
                KEY.cluster,
                f"a:{broker_id}",
                KEY.broker_name,
                broker_id,
                epoch=4,
                max_offset=100,
                confirm_offset=-1,
                heartbeat_timeout_mills=SILENT_AFTER_MS,
            )
            self.hearing.beat(broker_id, header, BrokerId(broker_id))

    def is_due(self) -> bool:
        """Scan once."""
        return self.elections.due() == [self.driver.group]

    def is_due_after(self, elapsed_ms: int) -> bool:
        """Let time pass and scan, also one millisecond early, when the election must still wait."""
        self.clock.at_ms += elapsed_ms - 1
        assert not self.is_due(), f"held too early, {elapsed_ms - 1} ms after the last change"
        self.clock.at_ms += 1
        return self.is_due()


async def _no_broker(address: str, _request: RemotingCommand, _timeout_s: float) -> RemotingCommand:
    raise RefusedError(f"{address} tells nothing")


def test_the_election_is_due_exactly_when_the_wait_is_over_that_began_with_all_members_heard() -> None:
    leader = LeaderWithOldMembers(1, 2)
    leader.hear(1, 2)
    assert not leader.is_due()
    assert leader.is_due_after(WAIT_MS)


@pytest.mark.parametrize("taken_up", [(1, 2, 3), (1, 3)], ids=["registered", "only its id is missing"])
def test_the_election_is_never_due_while_a_member_is_missing_and_waits_anew_once_it_has_come(
    taken_up: tuple[int, ...],
) -> None:
    leader = LeaderWithOldMembers(*taken_up)
    leader.hear(1, 3)
    for _ in range(10):
        leader.clock.at_ms += DAY_MS // 10
        assert not leader.is_due()
    leader.take_up(2)
    leader.hear(2)
    assert not leader.is_due()
    assert leader.is_due_after(WAIT_MS)


def test_a_new_member_begins_the_wait_anew() -> None:
    leader = LeaderWithOldMembers(1, 2)
    leader.hear(1, 2)
    assert not leader.is_due()
    leader.clock.at_ms += WAIT_MS - 1
    leader.take_up(3)
    leader.hear(3)
    assert not leader.is_due()
    assert leader.is_due_after(WAIT_MS)


def test_unregistered_members_hold_the_election_for_ten_waits_and_no_longer() -> None:
    leader = LeaderWithOldMembers(1, 2)
    leader.hear(1, 2, 7)
    assert not leader.is_due()
    assert leader.is_due_after(STRANGER_WAITS * WAIT_MS)


def test_a_changed_wait_counts_at_once() -> None:
    leader = LeaderWithOldMembers(1)
    leader.hear(1)
    assert not leader.is_due()
    leader.clock.at_ms += 5_000
    leader.wait_ms = 5_001
    assert not leader.is_due()
    leader.wait_ms = 5_000
    assert leader.is_due()


def test_the_default_wait_is_half_a_minute() -> None:
    assert load(SETTINGS)[0].first_election_wait_ms == WAIT_MS
