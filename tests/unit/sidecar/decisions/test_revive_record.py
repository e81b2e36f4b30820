"""The file of a companion's POP debt: what was written is read, damage is named, and its size is bounded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_sidecar.decisions.revive_debt import DebtRecord, OwedCheckpoints, ReviveDebt
from ha_sidecar.decisions.revive_record import (
    CONSUMERS_MAX,
    RECORD_BYTES_MAX,
    DebtRecordError,
    decode,
    encode,
)

CONSUMER, OTHER = ("T", "G"), ("U", "H")
RECORD = DebtRecord({0: -1, 3: 7}, {0: 9, 3: 8}, {3: 7}, frozenset({CONSUMER}), {CONSUMER: 2, OTHER: 5}, 7)

_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_consumers = st.tuples(_names, _names)
_offsets = st.dictionaries(st.integers(0, 99), st.integers(-1, (1 << 63) - 1), max_size=9)


@st.composite
def records(draw: st.DrawFn) -> DebtRecord:
    owed = draw(st.frozensets(_consumers, min_size=1, max_size=5))
    counts = dict.fromkeys(owed, 0) | draw(st.dictionaries(_consumers, st.integers(0, 1 << 40), max_size=5))
    return DebtRecord(
        draw(_offsets), draw(_offsets), draw(_offsets), owed, counts, draw(st.integers(0, 1 << 40))
    )


@given(records())
def test_a_record_is_read_as_it_was_written(record: DebtRecord) -> None:
    assert decode(encode(record, "c", "g"), "c", "g") == record


def changed(**values: Any) -> bytes:
    return json.dumps(json.loads(encode(RECORD, "c", "g")) | values).encode()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(encode(RECORD, "c", "g")[:40], "not JSON", id="cut"),
        pytest.param(b"\xff\xfe{", "not JSON", id="not-text"),
        pytest.param(b"[" * 100_000, "not JSON", id="deep"),
        pytest.param(b"[]", "not a JSON object", id="list"),
        pytest.param(b" " * (RECORD_BYTES_MAX + 1), "expected at most", id="large"),
        pytest.param(changed(group="other"), "'c', 'other'", id="another-group"),
        pytest.param(changed(after=[1]), "after", id="offsets-list"),
        pytest.param(changed(through={"x": 1}), "through", id="queue-name"),
        pytest.param(changed(safe={"1": True}), "safe", id="boolean"),
        pytest.param(changed(safe={"1": 1 << 63}), "safe", id="over-a-long"),
        pytest.param(changed(refused=-1), "refused", id="negative"),
        pytest.param(changed(consumers={}), "consumers", id="consumers-object"),
        pytest.param(changed(consumers=[["T", "G", 1]]), "invalid entry", id="short-entry"),
        pytest.param(changed(consumers=[["T", "G", 1, False]]), "no owed consumer", id="without-debt"),
    ],
)
def test_a_damaged_record_and_one_of_another_group_are_refused_with_the_reason(
    data: bytes, words: str
) -> None:
    with pytest.raises(DebtRecordError, match=words):
        decode(data, "c", "g")


@given(st.data())
def test_a_record_with_changed_bytes_is_read_or_refused(data: st.DataObject) -> None:
    written = bytearray(encode(RECORD, "c", "g"))
    for _ in range(data.draw(st.integers(1, 4))):
        written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode(bytes(written), "c", "g")
    except DebtRecordError:
        return


def test_of_more_consumers_than_fit_the_owed_ones_are_kept() -> None:
    counts = {(f"{number:06}", "G"): 1 for number in range(CONSUMERS_MAX)}
    owed = frozenset({("zz", "G")})
    found = decode(encode(DebtRecord({}, {}, {}, owed, counts, 0), "c", "g"), "c", "g")
    assert found.consumers == owed
    assert len(found.counts) == CONSUMERS_MAX


def test_a_record_above_its_size_is_not_written() -> None:
    owed = frozenset((f"{number:04}" + "t" * 1_000, "G") for number in range(CONSUMERS_MAX))
    with pytest.raises(DebtRecordError, match="expected at most"):
        encode(DebtRecord({}, {}, {}, owed, {}, 0), "c", "g")


def resumed(debt: ReviveDebt) -> ReviveDebt:
    record = debt.record()
    assert record is not None
    found = ReviveDebt()
    found.resume(decode(encode(record, "c", "g"), "c", "g"))
    return found


def open_debt() -> ReviveDebt:
    debt = ReviveDebt()
    debt.look({0: 10}, {OTHER: 4})
    debt.look({0: 20}, {CONSUMER: 5, OTHER: 4})
    return debt


def test_without_a_debt_there_is_no_record() -> None:
    debt = open_debt()
    debt.settle()
    assert debt.record() is None


def test_a_resumed_debt_owes_the_same_and_its_next_look_adds_later_offsets() -> None:
    debt = resumed(open_debt())
    assert debt.owed() == [OwedCheckpoints(0, 10, 20, frozenset({CONSUMER}))]
    assert debt.look({0: 24}, {CONSUMER: 5, OTHER: 4}), "the broker refused nothing since"
    assert debt.owed() == [OwedCheckpoints(0, 10, 24, frozenset({CONSUMER}))]
    assert debt.refused == 5


def test_refusals_between_the_record_and_the_next_look_are_found() -> None:
    debt = resumed(open_debt())
    assert not debt.look({0: 24, 1: 3}, {CONSUMER: 5, OTHER: 6})
    both = frozenset({CONSUMER, OTHER})
    assert debt.owed() == [OwedCheckpoints(0, 10, 24, both), OwedCheckpoints(1, -1, 3, both)]
    assert debt.refused == 7


def test_a_broker_that_restarted_with_its_companion_counts_from_zero() -> None:
    debt = resumed(open_debt())
    assert debt.look({0: 24}, {})
    assert debt.refused == 5
