"""Which group a request means when it carries no cluster, and several clusters have one of that name."""

from controller_core.groups.commands import AlterSyncStateSet, Cause, CleanBrokerData, ElectMaster
from controller_core.groups.keys import GroupKey
from testkit.raft.groups import NAME, GroupsDriver, live, stamp


def two_clusters() -> GroupsDriver:
    """c1/b1 in master epoch 1, c2/b1 in master epoch 2 with master 2; both sets hold ids 1 to 3 at first."""
    driver = GroupsDriver(GroupKey("c1", NAME)).group_of_three()
    driver.key = GroupKey("c2", NAME)
    driver.group_of_three()
    driver.suspect(2, 3)
    return driver


def test_a_name_of_one_cluster_needs_no_cluster() -> None:
    driver = GroupsDriver().group_of_three()
    assert driver.alter((1, 2), cluster="").reply.code == 0


def test_an_alter_without_cluster_means_the_group_with_its_master_and_epochs() -> None:
    driver = two_clusters()
    outcome = driver.alter((2, 3), cluster="")
    assert outcome.reply.code == 0
    assert driver.group.sync_state_set == (2, 3)
    other = driver.state.get(GroupKey("c1", NAME))
    assert other is not None
    assert other.sync_state_set == (1, 2, 3)


def test_an_alter_that_fits_no_group_or_both_is_refused_naming_the_clusters() -> None:
    driver = two_clusters()
    command = AlterSyncStateSet(
        cluster="",
        broker_name=NAME,
        stamp=stamp(1),
        master_id=7,
        master_epoch=7,
        members=(7,),
        set_epoch=7,
        alive=(),
    )
    reply = driver.apply(command).reply
    assert (reply.code, reply.ext) == (2005, {"newSyncStateSetEpoch": 0})
    assert reply.remark == (
        "Broker-set: b1 exists in the clusters c1, c2, and the request does not tell which one is meant: "
        "name it in clusterName"
    )


def test_an_election_without_cluster_means_the_group_that_has_the_id() -> None:
    driver = two_clusters()
    driver.claim(4)
    command = ElectMaster(
        cluster="",
        broker_name=NAME,
        stamp=stamp(1),
        requester_id=4,
        cause=Cause.BROKER_REQUEST,
        alive=live(2, 4),
    )
    assert driver.apply(command).reply.ext == driver.group.master_ext()


def test_a_cleaning_without_cluster_is_never_guessed() -> None:
    command = CleanBrokerData(cluster="", broker_name=NAME, stamp=stamp(1), ids_text="3")
    assert two_clusters().apply(command).reply.code == 2005


def test_a_forgotten_cluster_makes_the_name_unique_again() -> None:
    driver = two_clusters()
    driver.clean(clean_living=True)
    driver.key = GroupKey("c1", NAME)
    assert driver.alter((1, 2), cluster="").reply.code == 0
    driver.clean(clean_living=True)
    assert driver.alter((1, 2), master_id=1, cluster="").reply.code == 2013
