"""What proves that an acknowledged message is there, and what proves that it is gone."""

from collections.abc import Mapping

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from slo_pipeline.canary.read_plan import (
    DELAY_NS,
    DOUBT_INTERVAL_NS,
    GRACE_NS,
    KEPT_NS,
    ReadPlan,
    ReadVerdict,
)

S = 1_000_000_000


def ask(
    plan: ReadPlan, now_ns: int, found: Mapping[int, int | None], master: str = "a"
) -> list[tuple[int, str]]:
    asked = plan.next_pull(now_ns)
    assert asked is not None
    return said(plan.answered(asked, found, master, now_ns))


def said(verdicts: list[ReadVerdict]) -> list[tuple[int, str]]:
    return [(verdict.promise.sequence, verdict.result) for verdict in verdicts]


def test_a_message_is_read_when_it_has_some_age_and_not_before() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=S)
    assert plan.next_pull(S + DELAY_NS - 1) is None
    assert ask(plan, S + DELAY_NS, {0: 7}) == [(7, "ok")]
    assert (plan.unread, plan.next_pull(100 * S)) == (0, None)


def test_one_answer_settles_every_message_in_it() -> None:
    plan = ReadPlan()
    for sequence in range(5):
        plan.promise(sequence, 0, 10 + sequence, now_ns=S)
    found = {10 + sequence: sequence for sequence in range(4)}
    assert ask(plan, 10 * S, found) == [(0, "ok"), (1, "ok"), (2, "ok"), (3, "ok")]
    assert plan.unread == 1


def test_messages_are_asked_for_oldest_first_over_all_queues() -> None:
    plan = ReadPlan()
    for sequence in range(4):
        plan.promise(sequence, sequence % 2, sequence // 2, now_ns=S + sequence)
    order = []
    while (asked := plan.next_pull(10 * S)) is not None:
        order.append(asked.sequence)
        plan.answered(asked, {asked.offset: asked.sequence}, "a", 10 * S)
    assert order == [0, 1, 2, 3]


def test_a_message_that_is_not_shown_yet_is_not_missing() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=0)
    assert ask(plan, DELAY_NS, {}) == []
    assert plan.next_pull(DELAY_NS + 1) is None
    assert ask(plan, DELAY_NS + DOUBT_INTERVAL_NS, {0: 7}) == [(7, "ok")]


def test_a_message_denied_for_the_whole_grace_is_missing() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=0)
    assert ask(plan, DELAY_NS, {}) == []
    assert ask(plan, DELAY_NS + GRACE_NS - 1, {0: 8}) == []
    assert ask(plan, DELAY_NS + GRACE_NS + DOUBT_INTERVAL_NS, {0: None}) == [(7, "missing")]
    assert plan.next_pull(100 * S) is None


def test_the_grace_begins_anew_with_another_master() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=0)
    assert ask(plan, DELAY_NS, {}) == []
    assert ask(plan, DELAY_NS + GRACE_NS, {}, "b") == []
    assert ask(plan, DELAY_NS + 2 * GRACE_NS, {}, "b") == [(7, "missing")]


def test_a_message_in_doubt_does_not_hold_up_the_others() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=0)
    plan.promise(8, 1, 0, now_ns=1)
    assert ask(plan, 4 * S, {}) == []
    assert ask(plan, 4 * S, {0: 8}) == [(8, "ok")]


def test_a_message_read_from_the_old_master_and_gone_from_the_new_one_is_missing() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=0)
    plan.promise(8, 0, 1, now_ns=0)
    assert ask(plan, 4 * S, {0: 7, 1: 8}, "old") == [(7, "ok"), (8, "ok")]
    plan.master_changed()
    assert plan.unsettled == 2
    assert ask(plan, 5 * S, {0: 7}, "new") == []
    assert ask(plan, 5 * S, {}, "new") == []
    (verdict,) = plan.answered(plan.next_pull(5 * S + GRACE_NS), {}, "new", 5 * S + GRACE_NS)  # type: ignore[arg-type] # due
    assert (verdict.promise.sequence, verdict.result) == (8, "missing")
    assert verdict.remark is not None
    assert "old had it" in verdict.remark


def test_a_message_that_is_still_there_is_not_told_twice() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=0)
    assert ask(plan, 4 * S, {0: 7}, "old") == [(7, "ok")]
    plan.master_changed()
    assert ask(plan, 5 * S, {0: 7}, "new") == []
    assert (plan.unsettled, plan.next_pull(6 * S)) == (0, None)


def test_a_place_given_away_again_proves_that_the_first_message_is_gone() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=0)
    assert said(plan.promise(8, 0, 0, now_ns=1)) == [(7, "missing")]
    assert ask(plan, 4 * S, {0: 8}) == [(8, "ok")]


def test_old_messages_are_let_go_and_too_many_are_counted() -> None:
    plan = ReadPlan(promises_max=2)
    plan.promise(1, 0, 1, now_ns=0)
    assert ask(plan, 4 * S, {1: 1}) == [(1, "ok")]
    plan.promise(2, 0, 2, now_ns=5 * S)
    plan.promise(3, 0, 3, now_ns=5 * S)
    assert plan.dropped == 1
    plan.promise(4, 0, 4, now_ns=KEPT_NS + 1)
    assert plan.dropped == 1
    plan.master_changed()
    assert plan.unsettled == 2


def test_in_a_hurry_nothing_waits_for_its_age() -> None:
    plan = ReadPlan()
    plan.promise(7, 0, 0, now_ns=S)
    plan.hurry()
    assert ask(plan, S, {0: 7}) == [(7, "ok")]


class AnyHistory(RuleBasedStateMachine):
    """A queue that may lose its end at a failover; the plan must name exactly the lost messages."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = ReadPlan(grace_ns=3 * S)
        self.now_ns = 0
        self.queue: list[int] = []
        self.lost: set[int] = set()
        self.verdicts: dict[int, list[str]] = {}
        self.next_sequence = 0
        self.master = 0

    def hear(self, verdicts: list[ReadVerdict]) -> None:
        """Keep verdicts by message."""
        for verdict in verdicts:
            self.verdicts.setdefault(verdict.promise.sequence, []).append(verdict.result)

    @rule(wait_s=st.integers(0, 8))
    def send(self, wait_s: int) -> None:
        """Acknowledge one more message."""
        self.now_ns += wait_s * S
        self.queue.append(self.next_sequence)
        self.hear(self.plan.promise(self.next_sequence, 0, len(self.queue) - 1, self.now_ns))
        self.next_sequence += 1

    @rule(gone=st.integers(0, 3))
    def fail_over(self, gone: int) -> None:
        """Let another master lead, without the newest messages."""
        cut = self.queue[len(self.queue) - min(gone, len(self.queue)) :]
        self.lost.update(cut)
        del self.queue[len(self.queue) - len(cut) :]
        self.master += 1
        self.plan.master_changed()

    @rule(wait_s=st.integers(0, 4), batch=st.integers(1, 3))
    def read(self, wait_s: int, batch: int) -> None:
        """Carry out the pull that is due, if one is."""
        self.now_ns += wait_s * S
        asked = self.plan.next_pull(self.now_ns)
        if asked is not None:
            found = dict(enumerate(self.queue[asked.offset : asked.offset + batch], asked.offset))
            self.hear(self.plan.answered(asked, found, str(self.master), self.now_ns))

    @precondition(lambda self: self.next_sequence)
    @rule()
    def settle(self) -> None:
        """Read until nothing is open; then everything must have its true verdict."""
        self.plan.hurry()
        for _ in range(200):
            if not self.plan.unsettled:
                break
            self.read(1, 2)
        assert self.plan.unsettled == 0
        for sequence in range(self.next_sequence):
            assert self.verdicts[sequence][-1] == ("missing" if sequence in self.lost else "ok")

    @invariant()
    def never_cries_wolf_and_says_each_thing_once(self) -> None:
        """Nothing that is there was called missing, and nothing is said twice."""
        for sequence, results in self.verdicts.items():
            assert results in (["ok"], ["missing"], ["ok", "missing"])
            assert ("missing" in results) <= (sequence in self.lost)


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
