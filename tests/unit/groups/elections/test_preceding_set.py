"""After a master died before any slave joined, the previous set's members hold all acknowledged messages."""

from controller_core.groups.keys import ReplicaKey
from controller_core.groups.reads import get_sync_state_data
from controller_core.groups.replies import GroupSyncStateView
from controller_core.remoting.bodies import BrokerReplicasInfo
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.server.requests.answers import answer
from testkit.raft.groups import NAME, GroupsDriver


def _nobody(_: ReplicaKey) -> bool:
    return False


def _shown(driver: GroupsDriver) -> tuple[int, ...]:
    body = get_sync_state_data(driver.state, [NAME], _nobody).body
    assert isinstance(body, tuple)
    view = body[0]
    assert isinstance(view, GroupSyncStateView)
    return view.preceding_set


def _body(driver: GroupsDriver) -> bytes:
    request = RemotingCommand.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA)
    return answer(request, get_sync_state_data(driver.state, [NAME], _nobody)).body


def _alone() -> GroupsDriver:
    """Return a group of two brokers and log replica 3, whose second master died before others joined."""
    driver = GroupsDriver().group_of_three(log_replicas=(3,))
    driver.suspect(2, 3)
    driver.suspect(3)
    assert (driver.group.master_id, driver.group.sync_state_set) == (None, (2,))
    return driver


def test_it_is_the_set_that_the_election_found() -> None:
    assert (_alone().group.preceding_set, _shown(_alone())) == ((1, 2, 3), (1, 2, 3))


def test_while_there_is_a_master_it_is_not_shown() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect(2, 3)
    assert (driver.group.preceding_set, _shown(driver)) == ((1, 2, 3), ())


def test_it_ends_when_somebody_joins() -> None:
    driver = GroupsDriver().group_of_three()
    driver.suspect(2, 3)
    driver.alter((2, 3))
    assert driver.group.preceding_set == ()
    driver.alter((2,))
    driver.suspect(3)
    assert (driver.group.sync_state_set, _shown(driver)) == ((2,), ()), "3 may lack what 2 and 3 acknowledged"


def test_a_master_that_is_elected_again_before_anybody_joined_keeps_it() -> None:
    driver = _alone()
    driver.elect(2, 3, by=2)
    assert (driver.group.master_id, driver.group.preceding_set) == (2, (1, 2, 3))
    driver.suspect(3)
    assert _shown(driver) == (1, 2, 3)


def test_a_first_and_an_unclean_election_leave_none() -> None:
    driver = GroupsDriver()
    for broker_id in (1, 2):
        driver.claim(broker_id)
    driver.elect(1, by=1)
    assert driver.group.preceding_set == ()
    driver.elect(2, by=2, unclean_allowed=True)
    assert (driver.group.master_id, driver.group.preceding_set) == (2, ())


def test_who_is_forgotten_leaves_it() -> None:
    driver = _alone()
    driver.clean("1")
    assert driver.group.preceding_set == (2, 3)


def test_it_is_on_the_wire_only_where_there_is_one() -> None:
    driver = _alone()
    info = BrokerReplicasInfo.decode(_body(driver)).replicas_info_table[NAME]
    assert info.preceding_sync_state_set == (1, 2, 3)
    assert b"preceding" not in _body(GroupsDriver().group_of_three())
