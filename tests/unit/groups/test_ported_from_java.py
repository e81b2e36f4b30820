"""RocketMQ's own controller tests, by meaning: same steps, same assertions, our commands.

Source: controller/src/test of 5.4.0: ReplicasInfoManagerTest, DLedgerControllerTest, ControllerManagerTest,
DefaultBrokerHeartbeatManagerTest. Where the outcome differs on purpose, the test says so.
"""

import pytest

from controller_core.groups.commands import Cause, LiveBroker, decode
from controller_core.groups.keys import GroupKey, ReplicaKey
from controller_core.groups.liveness.scan import groups_needing_election
from controller_core.groups.liveness.table import LivenessTable
from controller_core.groups.reads import get_replica_info, get_sync_state_data
from controller_core.groups.state import GroupsState
from testkit.raft.groups import GroupsDriver, replay

KEY = GroupKey("cluster-a", "broker-set-a")


def mock_metadata() -> GroupsDriver:
    return GroupsDriver(KEY).group_of_three()


def in_and_out(state: GroupsState) -> tuple[int, int]:
    body = get_sync_state_data(state, [KEY.broker_name], lambda key: True).body
    assert isinstance(body, tuple)
    return len(body[0].in_sync), len(body[0].not_in_sync)


def test_register_broker_success() -> None:
    driver = mock_metadata()
    group = driver.group
    assert (group.master_id, group.master_epoch, group.set_epoch) == (1, 1, 2)
    assert in_and_out(driver.state) == (3, 0)


def test_register_with_master_exist_resp() -> None:
    driver = GroupsDriver(KEY)
    driver.claim(1)
    driver.claim(2)
    driver.elect(1, 2, by=1)
    driver.claim(3)
    reply = driver.register(3, "127.0.0.1:9003", alive=(1, 2, 3)).reply
    assert reply.ext is not None
    assert reply.ext["masterBrokerId"] == 1
    assert driver.group.set_epoch == 1
    assert in_and_out(driver.state) == (1, 2)


def test_register_with_old_master_inactive() -> None:
    driver = mock_metadata()
    driver.elect(3, by=3)
    assert (driver.group.master_id, driver.group.master_epoch, driver.group.set_epoch) == (3, 2, 3)
    assert in_and_out(driver.state) == (1, 2)


def test_elect_master_old_master_still_alive() -> None:
    assert mock_metadata().elect(1, 2, 3).reply.code == 2011


@pytest.mark.parametrize(
    ("alive", "winner"),
    [
        pytest.param((LiveBroker(2, 2, 1), LiveBroker(3, 1, 9)), 2, id="PreferHigherEpoch"),
        pytest.param((LiveBroker(2, 1, 1), LiveBroker(3, 1, 9)), 3, id="HigherOffsetWhenEpochEquals"),
        pytest.param((LiveBroker(2, 1, 1, 2), LiveBroker(3, 1, 1, 1)), 3, id="HigherPriorityWhenEqual"),
    ],
)
def test_elect_master_prefer(alive: tuple[LiveBroker, ...], winner: int) -> None:
    driver = mock_metadata()
    assert driver.suspect(*alive).reply.code == 0
    assert (driver.group.master_id, driver.group.master_epoch) == (winner, 2)


def test_elect_master_with_designation() -> None:
    driver = mock_metadata()
    driver.suspect(2, 3)
    master = driver.group.master_id
    assert master == 2
    driver.alter((1, 2, 3))
    assert driver.elect(2, 3, by=1, designate=True).reply.code == 2012
    assert driver.elect(1, 2, 3, by=2, designate=True).reply.code == 2011
    assert driver.elect(1, 2, 3, by=3, designate=True).reply.code == 0
    assert (driver.group.master_id, driver.group.master_epoch) == (3, 3)


def test_all_replicas_shutdown_and_restart() -> None:
    driver = mock_metadata()
    driver.alter((1,))
    driver.suspect()
    assert (driver.group.master_id, driver.group.master_epoch) == (None, 2)
    assert driver.group.sync_state_set == (1,)


def test_clean_broker_data() -> None:
    driver = mock_metadata()
    assert driver.clean("1", alive=(1, 2, 3)).reply.code == 2009
    assert driver.clean().reply.remark == "Broker broker-set-a is still alive, clean up failure"
    assert driver.clean("2;3", alive=(1,)).reply.code == 0
    unknown = GroupsDriver(GroupKey("cluster-a", "broker-set-b"))
    assert unknown.clean(clean_living=True).reply.code == 2009
    assert driver.clean(clean_living=True, cluster="").reply.code == 0


def test_serialize_keeps_both_tables() -> None:
    driver = mock_metadata()
    copy = GroupsState()
    copy.restore(driver.state.snapshot())
    assert copy.get(KEY) == driver.group


def test_elect_master_over_the_log_of_three_nodes() -> None:
    driver = mock_metadata()
    driver.suspect(2, 3)
    nodes = [replay(driver.log) for _ in range(3)]
    groups = [node.get(KEY) for node in nodes]
    assert groups == [driver.group] * 3
    assert (driver.group.master_epoch, driver.group.master_id != 1) == (2, True)


def test_broker_lifecycle_listener_reports_the_group_after_a_restart() -> None:
    """Elections need a majority and so never reached the log; the state after a restart is the old one."""
    driver = mock_metadata()
    state = replay(driver.log)
    group = state.get(KEY)
    assert group is not None
    assert (group.master_id, group.master_epoch) == (1, 1)
    table = LivenessTable()
    table.beat(ReplicaKey(*KEY, 2), 2, 0)
    assert [need.key for need in groups_needing_election(state, table)] == [KEY]


def test_all_replicas_shutdown_and_restart_with_unclean_election_off() -> None:
    driver = mock_metadata()
    driver.alter((1,))
    driver.suspect()
    assert driver.elect(2, by=2).reply.code == 2012
    assert driver.group.master_id is None
    assert driver.elect(1, 2, by=1).reply.code == 0
    assert (driver.group.master_id, driver.group.master_epoch) == (1, 3)


def test_enable_elect_unclean_master() -> None:
    driver = mock_metadata()
    driver.alter((1,))
    driver.elect(2, 3, suspicion=driver.suspicion(), cause=Cause.CONNECTION_CLOSED, unclean_allowed=True)
    assert driver.group.master_id in {2, 3}
    assert (driver.group.sync_state_set, driver.group.master_epoch) == ((driver.group.master_id,), 2)


def test_change_controller_leader() -> None:
    driver = mock_metadata()
    new_leader = replay(driver.log)
    reply = get_replica_info(new_leader, KEY.broker_name)
    assert reply.ext == {"masterBrokerId": 1, "masterAddress": "127.0.0.1:9001", "masterEpoch": 1}
    assert driver.group.sync_state_set == (1, 2, 3)


def test_some_api_elects_once_and_then_answers_the_same_fields() -> None:
    driver = GroupsDriver(KEY)
    driver.claim(1)
    driver.claim(2)
    first = driver.elect(1, 2, by=1).reply
    second = driver.elect(1, 2, by=2).reply
    assert (first.code, second.code) == (0, 2011)
    assert first.ext == second.ext


def test_detect_broker_alive() -> None:
    table = LivenessTable()
    table.beat(ReplicaKey(*KEY, 1), 1, 0, timeout_ms=3_000)
    assert table.expire(2_000) == []
    assert [death.key.broker_id for death in table.expire(3_100)] == [1]


def test_a_log_replays_to_the_same_state_from_its_bytes() -> None:
    driver = mock_metadata()
    assert [type(decode(data)).__name__ for data in driver.log] == [
        "ApplyBrokerId",
        "ApplyBrokerId",
        "ApplyBrokerId",
        "ElectMaster",
        "AlterSyncStateSet",
    ]
