"""The state as bytes: canonical, complete, versioned; and the same for commands in the log."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_core.groups.commands import (
    COMMAND_BYTES_MAX,
    COMMAND_VERSION,
    AnyCommand,
    ApplyBrokerId,
    Cause,
    CleanBrokerData,
    ElectMaster,
    ImportedGroup,
    ImportedMember,
    ImportGroups,
    LiftWriteGuard,
    LiveBroker,
    RaiseWriteGuard,
    RecordFailoverTimes,
    RegisterBroker,
    Suspicion,
    decode,
    encode,
)
from controller_core.groups.errors import CommandDecodeError, GroupsUsageError, SnapshotDecodeError
from controller_core.groups.snapshots import SNAPSHOT_MAGIC, decode_image
from controller_core.groups.state import EPOCH_FLOORS_MAX, GroupsState
from testkit.raft.groups import KEY, GroupsDriver, replay, stamp


def rich() -> GroupsDriver:
    driver = GroupsDriver().group_of_three(log_replicas=(3,))
    driver.suspect()
    driver.elect(2, by=2)
    driver.record_times(3, noticed=stamp(5))
    driver.key = KEY._replace(cluster="c0")
    driver.group_of_three()
    driver.clean(clean_living=True)
    return driver


def test_a_restored_state_has_the_same_bytes_groups_and_history() -> None:
    state = rich().state
    copy = GroupsState()
    copy.restore(state.snapshot())
    assert copy.snapshot() == state.snapshot()
    assert copy.digest() == state.digest()
    assert (copy.applied_index, copy.applied_term) == (state.applied_index, state.applied_term)
    assert list(copy.groups()) == list(state.groups())
    assert copy.history.failovers == state.history.failovers
    assert copy.history.events == state.history.events


def test_a_restored_state_goes_on_as_the_original_does() -> None:
    driver = rich()
    copy = GroupsState()
    copy.restore(driver.state.snapshot())
    driver.claim(1)
    copy.apply(decode(driver.log[-1]), driver.index, driver.term)
    assert driver.group.master_epoch == 1  # the floor of the forgotten c0/b1 was part of the snapshot
    assert copy.snapshot() == driver.state.snapshot()


def test_members_claimed_in_another_order_give_the_same_bytes() -> None:
    orders = set()
    for order in ((1, 2, 3), (1, 3, 2)):
        driver = GroupsDriver()
        for broker_id in order:
            driver.claim(broker_id)
        orders.add(tuple(driver.group.replicas))
    assert orders == {(1, 2, 3)}


def test_two_nodes_with_the_same_log_have_the_same_digest() -> None:
    driver = rich()
    assert replay(driver.log).digest() == driver.state.digest()


def test_different_states_have_different_digests() -> None:
    driver = GroupsDriver()
    before = driver.state.digest()
    driver.claim(1)
    assert driver.state.digest() != before


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "not a snapshot", id="empty"),
        pytest.param(b"something else", "not a snapshot", id="foreign"),
        pytest.param(SNAPSHOT_MAGIC + b"\x02", "version 02", id="newer"),
        pytest.param(GroupsState().snapshot()[:-1], "cannot be read", id="cut"),
        pytest.param(GroupsState().snapshot() + b"x", "cannot be read", id="tail"),
    ],
)
def test_bytes_that_are_no_snapshot_are_refused_and_leave_the_state_alone(data: bytes, words: str) -> None:
    driver = GroupsDriver().group_of_three()
    before = driver.state.digest()
    with pytest.raises(SnapshotDecodeError, match=words):
        driver.state.restore(data)
    assert driver.state.digest() == before


def test_an_entry_applied_twice_is_our_own_fault() -> None:
    driver = GroupsDriver().group_of_three()
    with pytest.raises(GroupsUsageError, match=f"entry {driver.index} "):
        driver.state.apply(decode(driver.log[-1]), driver.index, 1)


def test_a_refused_command_still_moves_the_applied_index() -> None:
    driver = GroupsDriver()
    driver.claim(2)
    assert driver.state.applied_index == 1


def test_the_epochs_of_forgotten_groups_are_bounded() -> None:
    driver = GroupsDriver()
    for number in range(EPOCH_FLOORS_MAX + 2):
        driver.key = KEY._replace(broker_name=f"g{number}")
        driver.claim(1)
        driver.clean("1")
    assert len(decode_image(driver.state.snapshot()).floors) == EPOCH_FLOORS_MAX
    copy = GroupsState()
    copy.restore(driver.state.snapshot())
    assert copy.digest() == driver.state.digest()


EVERY_COMMAND: tuple[AnyCommand, ...] = (
    ApplyBrokerId(
        cluster="c", broker_name="b", stamp=stamp(1), broker_id=1, check_code="a:1;2", log_replica=True
    ),
    RegisterBroker(cluster="", broker_name="ß", stamp=stamp(1), broker_id=1, address="a:1", alive=(1, 2)),
    ElectMaster(
        cluster="c",
        broker_name="b",
        stamp=stamp(1),
        cause=Cause.HEARTBEAT_TIMEOUT,
        alive=(LiveBroker(1, 2, 1 << 40, -1),),
        suspicion=Suspicion(1, 1, stamp(1), None),
    ),
    CleanBrokerData(cluster="c", broker_name="b", stamp=stamp(1), ids_text="1;2", alive=(3,)),
    RecordFailoverTimes(cluster="c", broker_name="b", stamp=stamp(1), master_epoch=2, role_taken=stamp(2)),
    RaiseWriteGuard(
        cluster="c", broker_name="b", stamp=stamp(1), master_id=1, master_epoch=2, min_in_sync_replicas=2
    ),
    LiftWriteGuard(cluster="c", broker_name="b", stamp=stamp(1), broker_id=1),
    ImportGroups(
        cluster="",
        broker_name="",
        stamp=stamp(1),
        groups=(ImportedGroup("c", "b", 2, (ImportedMember(1, "a:1"),), 1, 2, 3, (1,), (1,)),),
    ),
)


@pytest.mark.parametrize("command", EVERY_COMMAND, ids=lambda command: type(command).__name__)
def test_each_command_comes_back_from_its_bytes(command: AnyCommand) -> None:
    assert decode(encode(command)) == command


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"", "0 bytes", id="empty"),
        pytest.param(bytes(COMMAND_BYTES_MAX + 1), "bytes", id="huge"),
        pytest.param(b"\x09" + encode(EVERY_COMMAND[0])[1:], "version 9", id="newer-version"),
        pytest.param(
            encode(EVERY_COMMAND[0]).replace(b"ApplyBrokerId", b"ApplyBrokerIX"), "ApplyBrokerIX", id="kind"
        ),
        pytest.param(
            encode(EVERY_COMMAND[0]).replace(b"check_code", b"check_codX"), "check_cod", id="unknown-field"
        ),
        pytest.param(encode(EVERY_COMMAND[0])[:-1], "cannot be read", id="cut"),
    ],
)
def test_bytes_that_are_no_command_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(CommandDecodeError, match=words):
        decode(data)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for candidate in (data, bytes([COMMAND_VERSION]) + data):
        try:
            command = decode(candidate)
        except CommandDecodeError:
            continue
        assert decode(encode(command)) == command
