"""Node agents as second witnesses: when a silent member counts as lost with its node."""

import pytest

from controller_core import limits
from controller_core.groups.keys import BrokerId, ReplicaKey
from controller_core.groups.liveness.entries import LiveEntry
from controller_core.groups.liveness.node_agents import (
    AGENT_PAUSES,
    CONFIRM_EARLY_MS,
    FORGET_MS,
    LATE_MS_MAX,
    MEMBER_PAUSES,
    NODE_PAUSES,
    PACE_WINDOW_MS,
    TRUST_MS,
    NodeAgents,
    Pace,
    Verdict,
)

ONE, TWO, ELSEWHERE = (ReplicaKey("c1", "b1", BrokerId(number)) for number in (1, 2, 3))
AGENT, OTHER = 7, 8
TIMEOUT_MS = 500
AGENT_MS, MEMBER_MS, STEP_MS = 100, 300, 10
SETTLED_MS = 2 * TRUST_MS


class WitnessedNode:
    """Time, one controller's table, and senders that beat until they are stopped."""

    def __init__(self, named: tuple[ReplicaKey, ...] = (ONE, TWO)) -> None:
        self.agents = NodeAgents()
        self.now_ms = 0
        self.entries = {key: LiveEntry(key, 1, has_beaten=True) for key in (ONE, TWO, ELSEWHERE)}
        self.named = {AGENT: named}
        self.stopped: set[object] = set()
        self.member_ms = MEMBER_MS
        self.is_awake = True

    def until(self, end_ms: int) -> None:
        """Let time pass, with the heartbeats of all that are not stopped."""
        while self.now_ms < end_ms:
            self.now_ms += STEP_MS
            if self.is_awake:
                self.agents.tick(self.now_ms)
                self._beats()

    def _beats(self) -> None:
        if self.now_ms % AGENT_MS == 0:
            for channel, named in self.named.items():
                if channel not in self.stopped:
                    self.agents.beat(channel, named, self.now_ms)
        if self.now_ms % self.member_ms == 0:
            for key in self.entries:
                if key not in self.stopped:
                    self.heard(key)

    def heard(self, key: ReplicaKey) -> None:
        """Let a heartbeat of a member come in."""
        self.entries[key].last_beat_ms = self.now_ms
        self.agents.member_heard(key, self.now_ms)

    def verdict(self, key: ReplicaKey = ONE, early_ms: int = 0) -> Verdict:
        """Judge a member now."""
        return self.agents.verdict(key, self.entries[key], self.now_ms, TIMEOUT_MS, early_ms)

    def lost_after_ms(self, key: ReplicaKey = ONE, within_ms: int = 5_000) -> int | None:
        """Let time pass until a member is lost; return how long that took, None if it is not."""
        start_ms = self.now_ms
        while self.now_ms < start_ms + within_ms:
            self.until(self.now_ms + STEP_MS)
            if self.verdict(key) is Verdict.LOST:
                return self.now_ms - start_ms
        return None


def settled(**changes: int) -> WitnessedNode:
    """Return a node whose agent has named its members for long."""
    node = WitnessedNode()
    for name, value in changes.items():
        setattr(node, name, value)
    node.until(SETTLED_MS)
    return node


def test_a_node_is_lost_when_its_agent_and_its_member_are_silent() -> None:
    node = settled()
    node.stopped |= {AGENT, ONE, TWO}
    took_ms = node.lost_after_ms()
    assert took_ms is not None
    assert TIMEOUT_MS < took_ms <= TIMEOUT_MS + MEMBER_MS + STEP_MS
    assert node.verdict(TWO) is Verdict.LOST
    assert node.agents.silent_members(node.now_ms, TIMEOUT_MS) == [ONE, TWO]


def test_a_member_that_is_silent_alone_is_not_lost() -> None:
    node = settled()
    node.stopped.add(ONE)
    assert node.lost_after_ms() is None
    assert node.verdict() is Verdict.HEARD


def test_an_agent_that_is_silent_alone_changes_nothing() -> None:
    node = settled()
    node.stopped.add(AGENT)
    assert node.lost_after_ms() is None


def test_a_member_that_pauses_after_its_agent_has_stopped_is_not_lost() -> None:
    node = settled()
    node.stopped.add(AGENT)
    node.until(node.now_ms + 2 * MEMBER_MS)
    node.stopped |= {ONE, TWO}
    assert node.lost_after_ms() is None
    assert node.verdict() is Verdict.UNKNOWN


def test_one_member_that_is_heard_shows_for_all_that_the_node_lives() -> None:
    node = settled()
    node.stopped |= {AGENT, ONE}
    assert node.lost_after_ms() is None


def test_a_member_that_no_agent_named_is_not_lost() -> None:
    node = settled()
    node.stopped |= {AGENT, ONE, TWO, ELSEWHERE}
    assert node.lost_after_ms(ELSEWHERE) is None
    assert node.verdict(ELSEWHERE) is Verdict.UNKNOWN


def test_a_fresh_agent_is_not_relied_on() -> None:
    node = WitnessedNode()
    node.until(TRUST_MS - AGENT_MS)
    node.stopped |= {AGENT, ONE, TWO}
    assert node.lost_after_ms() is None


def test_an_agent_whose_connection_closed_is_forgotten() -> None:
    node = settled()
    node.stopped |= {AGENT, ONE, TWO}
    node.agents.channel_closed(AGENT)
    assert node.lost_after_ms() is None
    assert (len(node.agents), node.agents.named_count) == (0, 0)


def test_an_agent_that_starts_again_must_earn_its_trust_again() -> None:
    node = settled()
    node.agents.channel_closed(AGENT)
    node.named = {OTHER: (ONE, TWO)}
    node.until(node.now_ms + TRUST_MS // 2)
    node.stopped |= {OTHER, ONE, TWO}
    assert node.lost_after_ms() is None


def test_a_doubted_agent_must_earn_its_trust_again() -> None:
    node = settled()
    node.stopped.add(AGENT)
    node.until(node.now_ms + 2 * MEMBER_MS)
    node.stopped.clear()
    node.until(node.now_ms + TRUST_MS // 2)
    node.stopped |= {AGENT, ONE, TWO}
    assert node.lost_after_ms() is None


def test_of_two_agents_that_name_a_member_both_must_be_silent() -> None:
    node = settled()
    node.named[OTHER] = (ONE,)
    node.until(node.now_ms + SETTLED_MS)
    node.stopped |= {AGENT, ONE, TWO}
    assert node.lost_after_ms(ONE) is None
    node.stopped.add(OTHER)
    assert node.lost_after_ms(ONE) is not None


def test_a_member_that_an_agent_names_no_more_is_judged_without_it() -> None:
    node = settled()
    node.named[AGENT] = (TWO,)
    node.until(node.now_ms + AGENT_MS)
    node.stopped |= {AGENT, ONE, TWO}
    assert node.lost_after_ms(ONE) is None
    assert node.verdict(TWO) is Verdict.LOST


def test_a_member_that_is_starting_is_not_lost() -> None:
    node = settled()
    node.entries[ONE].starting_until_ms = node.now_ms + 60_000
    node.stopped |= {AGENT, ONE, TWO}
    assert node.lost_after_ms() is None
    assert node.verdict() is Verdict.UNKNOWN


def test_a_member_that_is_not_alive_is_not_lost_again() -> None:
    node = settled()
    node.stopped |= {AGENT, ONE, TWO}
    assert node.lost_after_ms() is not None
    assert node.agents.verdict(ONE, None, node.now_ms, TIMEOUT_MS) is Verdict.UNKNOWN


def test_a_member_with_rare_heartbeats_has_one_and_a_half_of_its_own_intervals() -> None:
    node = settled(member_ms=1_000)
    node.stopped |= {AGENT, ONE, TWO}
    took_ms = node.lost_after_ms()
    assert took_ms is not None
    assert 1_400 < took_ms < 1_700


def paused(senders: set[object], pause_ms: int) -> WitnessedNode:
    """Return a node whose senders once paused for so long, and are relied on again."""
    node = settled(member_ms=100)
    node.stopped |= senders
    node.until(node.now_ms + pause_ms)
    node.stopped.clear()
    node.until(node.now_ms + TRUST_MS + MEMBER_MS)
    return node


def test_an_agent_must_be_silent_for_longer_than_it_ever_paused_lately() -> None:
    node = paused({AGENT}, 700)
    node.stopped |= {AGENT, ONE, TWO}
    took_ms = node.lost_after_ms()
    assert took_ms is not None
    assert 700 < took_ms <= 700 + AGENT_MS + STEP_MS


def test_an_agent_that_paused_alone_for_less_than_the_timeout_delays_no_verdict() -> None:
    node = paused({AGENT}, 400)
    node.stopped |= {AGENT, ONE, TWO}
    took_ms = node.lost_after_ms()
    assert took_ms is not None
    assert took_ms <= TIMEOUT_MS + AGENT_MS + STEP_MS


def test_a_node_whose_processes_paused_together_is_awaited_for_twice_that() -> None:
    node = paused({AGENT, ONE, TWO}, 400)
    node.stopped |= {AGENT, ONE, TWO}
    took_ms = node.lost_after_ms()
    assert took_ms is not None
    assert 2 * 400 < took_ms <= 2 * (400 + AGENT_MS) + STEP_MS


def test_two_agents_that_pause_in_turn_are_no_pause_of_the_node() -> None:
    node = settled(member_ms=1_000)
    node.named[OTHER] = (ONE, TWO)
    for sender in (AGENT, OTHER):
        node.stopped.add(sender)
        node.until(node.now_ms + 450)
        node.stopped.clear()
        node.until(node.now_ms + AGENT_MS)
    member_ms, agent_ms, node_ms = node.agents.longest_pauses_ms(ONE)
    assert member_ms == 1_000
    assert agent_ms >= 450
    assert node_ms == AGENT_MS


def test_a_long_pause_is_forgotten_after_a_while() -> None:
    pace = Pace(0)
    pace.heard(900, 0)
    assert pace.patience_ms(TIMEOUT_MS, AGENT_PAUSES) == 900
    assert pace.patience_ms(TIMEOUT_MS, MEMBER_PAUSES) == 1_350
    assert pace.patience_ms(TIMEOUT_MS, NODE_PAUSES) == 1_800
    for now_ms in range(1_000, 2 * PACE_WINDOW_MS + 2_000, 100):
        pace.heard(now_ms, 0)
    assert pace.patience_ms(TIMEOUT_MS, NODE_PAUSES) == TIMEOUT_MS
    pace.heard(10 * PACE_WINDOW_MS, 0)
    pace.heard(12 * PACE_WINDOW_MS, 12 * PACE_WINDOW_MS - 100)
    assert pace.longest_ms == 100, "both windows are over"


@pytest.mark.parametrize("stopped_ms", [LATE_MS_MAX + 50, 700, 10_000])
def test_a_controller_that_was_stopped_judges_nobody(stopped_ms: int) -> None:
    node = settled()
    node.is_awake = False
    node.until(node.now_ms + stopped_ms)
    assert node.verdict() is not Verdict.LOST
    assert node.agents.silent_members(node.now_ms, TIMEOUT_MS) == []
    node.is_awake = True
    node.until(node.now_ms + SETTLED_MS)
    node.stopped |= {AGENT, ONE, TWO}
    took_ms = node.lost_after_ms()
    assert took_ms is not None
    assert took_ms <= TIMEOUT_MS + MEMBER_MS + STEP_MS, "its own pause does not count for others"


def test_a_controller_that_is_stopped_during_the_silence_begins_to_count_again() -> None:
    node = settled()
    node.stopped |= {AGENT, ONE, TWO}
    node.until(node.now_ms + TIMEOUT_MS - 100)
    node.is_awake = False
    node.until(node.now_ms + 1_000)
    node.is_awake = True
    took_ms = node.lost_after_ms()
    assert took_ms is not None
    assert took_ms >= TIMEOUT_MS


def test_another_controller_confirms_a_little_earlier() -> None:
    node = settled()
    node.stopped |= {AGENT, ONE, TWO}
    while node.verdict(early_ms=CONFIRM_EARLY_MS) is not Verdict.LOST:
        node.until(node.now_ms + STEP_MS)
    assert node.verdict() is Verdict.HEARD
    node.until(node.now_ms + CONFIRM_EARLY_MS)
    assert node.verdict() is Verdict.LOST


def test_a_member_with_a_binding_lease_is_not_lost_before_its_end() -> None:
    node = settled()
    node.stopped |= {AGENT, ONE, TWO}
    node.entries[ONE].lease_until_ms = node.now_ms + 1_350
    took_ms = node.lost_after_ms()
    assert took_ms is not None
    assert 1_350 <= took_ms <= 1_350 + STEP_MS
    assert node.verdict(TWO) is Verdict.LOST


def test_no_timeout_turns_the_rule_off() -> None:
    node = settled()
    node.stopped |= {AGENT, ONE, TWO}
    node.until(node.now_ms + 5_000)
    assert node.agents.verdict(ONE, node.entries[ONE], node.now_ms, 0) is Verdict.UNKNOWN


def test_agents_beyond_the_bound_are_not_taken_and_silent_ones_are_forgotten() -> None:
    agents = NodeAgents()
    assert all(agents.beat(channel, (ONE,), 1) for channel in range(limits.NODE_AGENTS_MAX))
    assert not agents.beat(limits.NODE_AGENTS_MAX, (TWO,), 1)
    assert (len(agents), agents.named_count) == (limits.NODE_AGENTS_MAX, 1)
    for now_ms in range(0, FORGET_MS + 1_000, 100):
        agents.tick(now_ms)
    assert agents.silent_members(FORGET_MS + 1_000, TIMEOUT_MS) == []
    assert (len(agents), agents.named_count) == (0, 0)
