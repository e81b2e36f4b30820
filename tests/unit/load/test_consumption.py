"""How long consumers waited for messages that were there; duplicates and late messages."""

from testkit.rocketmq.consumers.consumption import (
    ConsumerCost,
    Received,
    TransactionMark,
    consumer_cost,
    longest_stall_ms,
    open_transactions,
)
from testkit.rocketmq.load import Send

MS = 1_000_000


def acknowledged(*at_ms: int) -> list[Send]:
    """Return sends with keys 0, 1, ... acknowledged at these times."""
    return [
        Send(number, str(number), at * MS - MS, at * MS, "SEND_OK", "b", 0, number)
        for number, at in enumerate(at_ms)
    ]


def received(*of: tuple[int, int], ordered: bool = False) -> list[Received]:
    """Return receipts by time in ms and key; the offset is the key."""
    return [Received(at * MS, ordered, str(key), 0, key) for at, key in of]


def test_a_stall_begins_with_the_last_receipt_if_messages_waited_already() -> None:
    assert longest_stall_ms(acknowledged(100, 101), received((110, 0), (900, 1))) == 790


def test_a_stall_begins_with_the_acknowledgement_if_there_was_nothing_before() -> None:
    assert longest_stall_ms(acknowledged(100, 500), received((110, 0), (900, 1))) == 400


def test_a_consumer_that_has_nothing_to_receive_does_not_stall() -> None:
    assert longest_stall_ms(acknowledged(100, 5_000), received((110, 0), (5_001, 1))) == 10


def test_a_message_that_comes_before_its_acknowledgement_did_not_wait() -> None:
    assert longest_stall_ms(acknowledged(100, 500), received((99, 0), (499, 1))) == 0


def test_a_message_that_came_again_does_not_end_a_wait_for_another_one() -> None:
    assert longest_stall_ms(acknowledged(100, 101), received((102, 0), (300, 0), (700, 1))) == 400


def test_stalls_before_the_measurement_do_not_count() -> None:
    assert (
        longest_stall_ms(acknowledged(100, 2_000), received((900, 0), (2_050, 1)), after_ns=1_000 * MS) == 50
    )


def test_duplicates_and_late_messages_are_counted_by_consumer() -> None:
    both = [
        *received((1, 0), (2, 1), (3, 1)),
        *received((1, 0), (2, 2), (3, 1), (4, 2), ordered=True),
    ]
    assert consumer_cost(acknowledged(1, 1, 1), both) == ConsumerCost(
        1, 1, duplicates=2, disordered=1, latest_ms=2, unreceived=1
    )


def test_a_consumer_that_receives_no_more_stalls_to_the_end() -> None:
    assert longest_stall_ms(acknowledged(100, 500, 9_000), received((110, 0))) == 8_500


def test_a_queue_that_nobody_reads_is_no_stall_but_its_messages_are_not_received() -> None:
    sends = acknowledged(*range(100, 200))
    read = [(at + 1, number) for number, at in enumerate(range(100, 200)) if number % 4 < 2]
    both = [*received(*read), *received(*read, (900, 2), ordered=True)]
    cost = consumer_cost(sends, both)
    assert (cost.stall_ms, cost.latest_ms, cost.unreceived) == (3, 798, 99)


def test_without_messages_there_is_no_stall() -> None:
    assert consumer_cost([], []) == ConsumerCost(0, 0, 0, 0)


def test_a_transaction_is_open_from_its_commit_to_its_receipt() -> None:
    marks = [
        TransactionMark(0, "before", received=False),
        TransactionMark(2_000_000, "slow", received=False),
        TransactionMark(3_000_000, "lost", received=False),
        TransactionMark(4_000_000, "fast", received=False),
        TransactionMark(3_900_000, "fast", received=True),
        TransactionMark(9_000_000, "slow", received=True),
        TransactionMark(20_000_000, "slow", received=True),
    ]
    assert open_transactions(marks) == {"before", "lost"}
    cost = consumer_cost([], [], after_ns=1, transactions=marks)
    assert (cost.transaction_ms, cost.open_transactions) == (7.0, 1)
