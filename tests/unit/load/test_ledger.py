"""What a ledger of sends says: gaps, losses, duplicates."""

import json
from pathlib import Path

from testkit.load import Send, compare, first_acknowledged_after, read_ledger, summarise


def send(sequence: int, end_ns: int, status: str = "SEND_OK", start_ns: int | None = None) -> Send:
    start = end_ns - 1 if start_ns is None else start_ns
    return Send(sequence, f"k{sequence}", start, end_ns, status, "b", 0, sequence)


def test_the_longest_gap_lies_between_acknowledgements_and_not_between_sends() -> None:
    sends = [send(0, 1_000_000_000), send(1, 2_000_000_000, "RemotingException"), send(2, 4_000_000_000)]
    stats = summarise(sends)
    assert (stats.longest_gap_s, stats.gap_start_ns) == (3.0, 1_000_000_000)
    assert (stats.acknowledged, stats.failed) == (2, 1)
    assert stats.statuses == {"RemotingException": 1}


def test_acknowledgements_of_several_threads_are_put_in_order_before_gaps_are_measured() -> None:
    sends = [send(1, 3_000_000_000), send(0, 1_000_000_000), send(2, 2_000_000_000)]
    assert summarise(sends).longest_gap_s == 1.0


def test_an_empty_ledger_has_no_gap() -> None:
    stats = summarise([])
    assert (stats.acknowledged, stats.longest_gap_s, stats.gap_start_ns) == (0, 0.0, None)


def test_the_first_acknowledgement_after_a_fault_started_after_it() -> None:
    before = send(0, end_ns=150, start_ns=90)
    after = send(1, end_ns=200, start_ns=110)
    assert first_acknowledged_after([before, after], 100) == after
    assert first_acknowledged_after([before], 100) is None


def test_a_promised_key_that_is_not_read_is_lost_and_an_ambiguous_one_is_not() -> None:
    sends = [send(0, 1), send(1, 2), send(2, 3, "FLUSH_SLAVE_TIMEOUT"), send(3, 4, "RemotingException")]
    result = compare(sends, ["k0", "k0", "k3", "other"])
    assert result.lost == {"k1"}
    assert result.duplicates == {"k0"}
    assert result.unexpected == {"other"}
    assert (result.acknowledged, result.read) == (2, 4)


def test_the_torn_last_line_of_a_killed_client_is_left_out(tmp_path: Path) -> None:
    line = {"seq": 0, "key": "k0", "start_ns": 1, "end_ns": 2, "status": "SEND_OK", "queue": 1, "offset": 7}
    path = tmp_path / "ledger.jsonl"
    path.write_text(json.dumps(line) + "\n" + '{"seq":1,"ke')
    (only,) = read_ledger(path)
    assert (only.sequence, only.queue, only.offset, only.broker) == (0, 1, 7, None)
