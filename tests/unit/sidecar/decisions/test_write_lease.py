"""The write lease: what each controller's answer, closed port or silence does to it."""

import pytest

from controller_core.groups.commands import DEFAULT_HEARTBEAT_TIMEOUT_MS
from ha_sidecar.decisions.majority import ControllerAnswer, NamedLeader
from ha_sidecar.decisions.write_lease import (
    CLOSED_MS,
    FRESH_MS,
    LEASE_MS_MAX,
    MARGIN_MS,
    MasterMark,
    WriteLease,
    read_mark,
)

A, B, C = "a:1", "b:1", "c:1"
FALLBACK_MS = 900


def by(leader: str, *, count: int = 3) -> ControllerAnswer:
    return ControllerAnswer(count, NamedLeader(leader, leader))


def lease_of(leader: str, told: dict[str, int], asked_ms: int = 0) -> WriteLease:
    lease = WriteLease(3, FALLBACK_MS)
    for controller, lease_ms in told.items():
        lease.answered(controller, asked_ms, by(leader), lease_ms)
    return lease


def test_the_lease_is_what_a_majority_waits_for() -> None:
    assert lease_of(C, {A: 500, B: 900, C: 1_200}).until_ms() == 900 - MARGIN_MS


def test_the_leader_alone_ends_it_because_the_leader_alone_decides() -> None:
    assert lease_of(A, {A: 300, B: 1_400, C: 1_400}).until_ms() == 300 - MARGIN_MS


def test_one_controller_has_no_lease_to_give() -> None:
    assert lease_of(A, {A: 1_500}).until_ms() is None


def test_a_lease_counts_from_the_question() -> None:
    assert lease_of(A, {A: 1_000, B: 1_000}, asked_ms=5_000).until_ms() == 6_000 - MARGIN_MS


def test_a_leader_that_was_never_heard_gives_none() -> None:
    assert lease_of(C, {A: 1_500, B: 1_500}).until_ms() is None


def test_a_liar_alone_neither_leads_nor_prolongs_it() -> None:
    lease = lease_of(A, {A: 1_000, B: 1_000})
    lease.answered(C, 0, ControllerAnswer(1, NamedLeader(C, C), leads=True), 10**12)
    assert lease.until_ms() == 1_000 - MARGIN_MS
    assert lease_of(A, {A: 10**12, B: 10**12}).until_ms() == LEASE_MS_MAX - MARGIN_MS


def test_a_controller_that_tells_no_lease_gives_the_configured_one() -> None:
    lease = WriteLease(3, FALLBACK_MS)
    for controller in (A, B):
        lease.answered(controller, 100, by(A), None)
    assert lease.until_ms() == 100 + FALLBACK_MS - MARGIN_MS


def test_controllers_that_have_ended_do_not_stop_a_master() -> None:
    lease = lease_of(A, {A: 1_000, B: 1_000, C: 1_000})
    for tried_ms in range(500, 60_000, 1_000):
        for controller in (A, B, C):
            lease.port_closed(controller, tried_ms)
    assert lease.until_ms() == 59_500 + CLOSED_MS - MARGIN_MS


def test_addresses_that_are_silent_after_their_ports_were_closed_stop_a_master_late() -> None:
    lease = lease_of(A, {A: 1_000, B: 1_000, C: 1_000})
    for controller in (A, B, C):
        lease.port_closed(controller, 900)
    assert lease.until_ms() == 900 + CLOSED_MS - MARGIN_MS
    assert CLOSED_MS > 5_000, "for so long addresses of pods were silent that Kubernetes replaced"


def test_a_closed_port_counts_for_less_time_than_its_next_process_judges_no_silence() -> None:
    assert DEFAULT_HEARTBEAT_TIMEOUT_MS > CLOSED_MS


def test_a_closed_port_does_not_bring_back_a_lease_that_has_run_out() -> None:
    lease = lease_of(A, {A: 1_000, B: 1_000, C: 1_000})
    for controller in (A, B, C):
        lease.port_closed(controller, 1_000)
    assert lease.until_ms() == 1_000 - MARGIN_MS


def test_a_port_that_was_always_closed_gives_nothing() -> None:
    lease = lease_of(A, {A: 1_000})
    lease.port_closed(B, 10)
    assert lease.until_ms() is None


def test_a_broker_that_the_leader_takes_for_dead_is_given_up() -> None:
    lease = lease_of(A, {A: 0, B: 0}, asked_ms=2_000)
    assert lease.is_given_up(2_000)
    assert not lease.is_given_up(2_000 + FRESH_MS), "an old answer says nothing of now"


@pytest.mark.parametrize("told", [{A: 100, B: 0}, {A: 0}])
def test_a_broker_is_not_given_up_by_others_than_the_leader_that_a_majority_names(
    told: dict[str, int],
) -> None:
    assert not lease_of(A, told).is_given_up(0)


def test_a_mark_is_read_as_it_is_written() -> None:
    assert read_mark(str(MasterMark(3, 17))) == MasterMark(3, 17)


@pytest.mark.parametrize("text", ["", "3", "3.", ".4", "a.b", "1.2.3", "-1.2", "9" * 50 + ".1"])
def test_another_text_is_no_mark(text: str) -> None:
    assert read_mark(text) is None
