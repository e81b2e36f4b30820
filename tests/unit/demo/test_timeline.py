"""The demo's timeline: gaps and failed sends are those around the fault and no others."""

from testkit.demo.timeline import FailoverMoment, SendGap, Timeline, longest_gap, sends_failed
from testkit.rocketmq.load import ACKNOWLEDGED, Send

MS = 1_000_000


def _send(end_ms: int, status: str = ACKNOWLEDGED) -> Send:
    return Send(end_ms, str(end_ms), (end_ms - 1) * MS, end_ms * MS, status, None, None, None)


def test_the_gap_is_the_longest_between_acknowledgements_that_ends_after_the_fault() -> None:
    sends = [_send(at) for at in (0, 90, 100, 110, 150, 155)]
    assert longest_gap(sends, fault_ns=105 * MS, until_ns=200 * MS) == SendGap(110 * MS, 150 * MS)


def test_a_gap_that_is_open_at_the_fault_counts_from_the_acknowledgement_before_it() -> None:
    assert longest_gap([_send(100), _send(400)], 105 * MS, 500 * MS) == SendGap(100 * MS, 400 * MS)


def test_a_send_that_was_not_acknowledged_does_not_end_a_gap() -> None:
    sends = [_send(100), _send(200, "MQClientException"), _send(300)]
    assert longest_gap(sends, 105 * MS, 500 * MS) == SendGap(100 * MS, 300 * MS)


def test_without_an_acknowledgement_after_the_fault_there_is_no_gap() -> None:
    assert longest_gap([_send(1), _send(2)], 105 * MS, 500 * MS) is None


def test_failed_sends_are_counted_within_the_window_only() -> None:
    sends = [_send(50, "X"), _send(150, "X"), _send(160), _send(700, "X")]
    assert sends_failed(sends, 105 * MS, 500 * MS) == 1


def test_a_phase_that_nobody_saw_is_said_to_be_so() -> None:
    timeline = Timeline(
        "kill", 10 * MS, [FailoverMoment("suspected", None), FailoverMoment("elected", 12 * MS)], None, 0
    )
    lines = timeline.lines()
    assert any(line.split()[:3] == ["suspected", "not", "seen"] for line in lines)
    assert any(line.split()[:3] == ["elected", "2.0", "ms"] for line in lines)
