"""1013 and 1003, one test a sentence of the protocol's tables."""

from controller_core.groups.history import EventKind
from controller_core.remoting.codes import ResponseCode
from testkit.raft.groups import CLUSTER, NAME, GroupsDriver

GROUP_EXT = {"clusterName": CLUSTER, "brokerName": NAME}


def test_the_first_claim_of_a_group_must_be_id_one() -> None:
    reply = GroupsDriver().claim(2).reply
    assert reply.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID == 2014
    assert reply.remark == (
        "Broker-set: b1 hasn't been registered in controller, but broker try to apply brokerId: 2"
    )
    assert reply.ext == GROUP_EXT


def test_the_first_claim_of_id_one_makes_the_group() -> None:
    driver = GroupsDriver()
    outcome = driver.claim(1)
    assert (outcome.reply.code, outcome.reply.ext, outcome.reply.remark) == (0, GROUP_EXT, None)
    assert [event.kind for event in outcome.events] == [EventKind.BROKER_REGISTERED]
    assert driver.group.address(1) == "127.0.0.1:9001"


def test_a_claim_repeated_with_the_same_check_code_succeeds_and_changes_nothing() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    before = driver.group
    outcome = driver.claim(1)
    assert outcome.reply.code == ResponseCode.SUCCESS
    assert outcome.events == ()
    assert driver.group == before


def test_a_taken_id_is_refused_to_another_check_code() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    reply = driver.claim(1, "127.0.0.1:9001;18").reply
    assert (reply.code, reply.remark) == (2014, "Fail to apply brokerId: 1 in broker-set: b1")


def test_a_free_id_may_be_claimed_beyond_a_gap() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    assert driver.claim(7).reply.code == ResponseCode.SUCCESS


def test_the_next_id_is_above_every_id_ever_claimed() -> None:
    driver = GroupsDriver()
    for broker_id in (1, 2, 7, 4):
        driver.claim(broker_id)
    assert driver.group.next_broker_id == 8


def test_the_next_id_never_goes_down_by_cleaning() -> None:
    driver = GroupsDriver()
    for broker_id in (1, 2, 7):
        driver.claim(broker_id)
    driver.clean("7")
    assert driver.group.next_broker_id == 8


def test_an_id_below_one_is_refused() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    for broker_id in (0, -1):
        assert driver.claim(broker_id).reply.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


def test_the_address_is_the_check_code_before_its_first_semicolon() -> None:
    driver = GroupsDriver()
    driver.claim(1, "host:1;2;3")
    assert driver.group.address(1) == "host:1"


def test_a_log_replica_is_registered_as_not_electable() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    driver.claim(2, log_replica=True)
    assert [driver.group.replicas[broker_id].electable for broker_id in (1, 2)] == [True, False]


def test_registering_in_an_unknown_group_needs_a_claim_first() -> None:
    reply = GroupsDriver().register(1, "a:1").reply
    assert (reply.code, reply.ext) == (2010, GROUP_EXT)
    assert reply.remark == "Broker-set: b1 hasn't been registered in controller"


def test_registering_an_unclaimed_id_needs_a_claim_first() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    reply = driver.register(9, "a:9").reply
    assert (reply.code, reply.ext) == (2010, GROUP_EXT)
    assert reply.remark == "BrokerId: 9 hasn't been registered in broker-set: b1"


def test_registering_before_any_election_answers_an_empty_set_and_no_master() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    reply = driver.register(1, "127.0.0.1:9001", alive=(1,)).reply
    assert (reply.code, reply.ext) == (0, GROUP_EXT)
    assert (reply.body.members, reply.body.epoch) == ((), 0)


def test_registering_answers_a_living_master_with_both_epochs() -> None:
    driver = GroupsDriver().group_of_three()
    reply = driver.register(2, "127.0.0.1:9002", alive=(1, 2)).reply
    master = {
        "masterBrokerId": 1,
        "masterAddress": "127.0.0.1:9001",
        "masterEpoch": 1,
        "syncStateSetEpoch": 2,
    }
    assert reply.ext == GROUP_EXT | master
    assert (reply.body.members, reply.body.epoch) == ((1, 2, 3), 2)


def test_registering_does_not_answer_a_master_that_is_recorded_but_dead() -> None:
    driver = GroupsDriver().group_of_three()
    reply = driver.register(2, "127.0.0.1:9002", alive=(2,)).reply
    assert reply.ext == GROUP_EXT
    assert reply.body.members == (1, 2, 3)


def test_a_changed_address_is_stored_and_told_and_the_check_code_stays() -> None:
    driver = GroupsDriver()
    driver.claim(1)
    outcome = driver.register(1, "10.0.0.1:1")
    assert driver.group.address(1) == "10.0.0.1:1"
    assert [event.attrs["address"] for event in outcome.events] == ["10.0.0.1:1"]
    assert driver.claim(1).reply.code == ResponseCode.SUCCESS


def test_registering_what_is_known_leaves_the_state_and_the_stream_alone() -> None:
    driver = GroupsDriver().group_of_three()
    before = driver.group
    assert driver.register(2, "127.0.0.1:9002").events == ()
    assert driver.group == before


def test_registering_as_log_replica_marks_an_id_and_registering_as_broker_unmarks_it() -> None:
    driver = GroupsDriver().group_of_three()
    driver.register(3, "127.0.0.1:9003", log_replica=True)
    assert not driver.group.replicas[3].electable
    driver.register(3, "127.0.0.1:9003")
    assert driver.group.replicas[3].electable
