"""What a ledger of sends says: gaps, losses, duplicates."""

import json
import re
from pathlib import Path
from random import Random
from threading import Thread

from testkit.kill_rounds.groups import ALL_IN_SYNC
from testkit.kill_rounds.rounds import PAUSE_S_MAX, schedule
from testkit.rocketmq.load import (
    LoadClient,
    Send,
    compare,
    first_acknowledged_after,
    longest_gap_since_s,
    read_ledger,
    summarise,
)

_REST = '"key":"k","start_ns":1,"end_ns":2,"status":"SEND_OK"'


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


def test_the_gap_of_a_fault_begins_at_the_last_acknowledgement_before_it() -> None:
    sends = [send(0, 1_000_000_000), send(1, 2_000_000_000), send(2, 2_400_000_000), send(3, 2_500_000_000)]
    assert longest_gap_since_s(sends, 2_100_000_000) == 0.4
    assert longest_gap_since_s(sends, 500_000_000) == 1.0


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


def test_a_line_that_is_still_being_written_is_read_when_it_is_whole_and_once(tmp_path: Path) -> None:
    client = LoadClient(tmp_path, "127.0.0.1:1", "T", tmp_path)
    lines = [
        json.dumps({"seq": n, "key": f"k{n}", "start_ns": n, "end_ns": n + 1, "status": "SEND_OK"}) + "\n"
        for n in range(3)
    ]
    assert client.sends() == []
    client.ledger.write_text(lines[0] + lines[1][:9])
    assert [one.key for one in client.sends()] == ["k0"]
    client.ledger.write_text("".join(lines))
    assert [one.key for one in client.sends()] == ["k0", "k1", "k2"]
    assert client.sends() == read_ledger(client.ledger)


def test_a_line_that_ends_while_it_is_read_is_not_torn_into_two(tmp_path: Path) -> None:
    client = LoadClient(tmp_path, "127.0.0.1:1", "T", tmp_path)
    halves = re.findall(r"[^:]*:?", "".join(f'{{"seq":{n},{_REST}}}\n' for n in range(2_000)))

    def write() -> None:
        with client.ledger.open("w", buffering=1) as ledger:
            for half in halves:
                ledger.write(half)
                ledger.flush()

    writer = Thread(target=write)
    writer.start()
    while writer.is_alive():
        client.sends()
    assert [one.sequence for one in client.sends()] == list(range(2_000))


def test_a_seed_says_who_is_killed_when_and_each_member_is_once_in_three_rounds() -> None:
    def drawn(seed: int) -> list[tuple[tuple[str, ...], float]]:
        return list(schedule(Random(seed), ALL_IN_SYNC, 30))

    rounds = drawn(4)
    assert rounds == drawn(4) != drawn(5)
    for first in range(0, 30, 3):
        assert {victim for victim, _ in rounds[first : first + 3]} == set(ALL_IN_SYNC.victims)
    assert all(0 <= pause_s <= PAUSE_S_MAX for _, pause_s in rounds)
