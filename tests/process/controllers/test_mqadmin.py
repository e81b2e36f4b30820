"""RocketMQ's own mqadmin, in three releases, against three of our controllers.

Brokers that send heartbeats and a log replica are members.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller_core.remoting import headers
from rocketmq_operator.plan.cluster.observed_controllers import parse_controllers
from testkit.fakes.broker import FakeBroker
from testkit.products.controllers import ControllerCluster
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import mqadmin

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

CLUSTER = "c1"
GROUP = "b1"
VERSIONS = ("5.2.0", "5.4.0", "5.5.0")
CALM = {"raftElectionTimeoutMs": "1500"}
"""A JVM that starts may stop a small machine for longer than the usual 300 ms; who leads
is not what this is about."""


class Admin:
    """mqadmin of one release, pointed at a node that does not lead."""

    def __init__(self, release: Path, directory: Path, cluster: ControllerCluster, follower: str) -> None:
        self._jars = release
        self._home = directory
        self.cluster = cluster
        self.address = follower

    async def __call__(self, command: str, *arguments: str, address: str = "") -> str:
        """Run one command and return what it printed."""
        return await mqadmin(self._jars, self._home, command, "-a", address or self.address, *arguments)


@pytest.fixture(params=VERSIONS)
async def admin(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Admin]:
    release = await jars(request.param)
    async with ControllerCluster(tmp_path, settings=CALM) as cluster:
        leader = await cluster.wait_leader()
        follower = cluster.remoting_addresses[(leader + 1) % 3]
        yield Admin(release, tmp_path / "mqadmin", cluster, follower)


async def _two_brokers(cluster: ControllerCluster) -> tuple[FakeBroker, FakeBroker]:
    brokers = (FakeBroker(cluster.remoting_addresses, GROUP), FakeBroker(cluster.remoting_addresses, GROUP))
    for broker in brokers:
        await broker.start()
    elected = await brokers[0].elect()
    brokers[0].epoch = headers.ElectMasterResponseHeader.from_ext(elected.ext).master_epoch or 0
    await cluster.wait_group(CLUSTER, GROUP, lambda group: all(one["alive"] for one in group["replicas"]))
    await brokers[0].alter((1, 2), set_epoch=1)
    return brokers


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


async def test_every_controller_command_of_mqadmin_works(admin: Admin, tmp_path: Path) -> None:
    """One test per release: a JVM takes a second for each command, and the commands depend on one another."""
    first, second = await _two_brokers(admin.cluster)
    try:
        await _check_metadata(admin)
        await _check_sync_state_set(admin, first, second)
        await _check_election(admin, second)
        await _check_cleaning(admin, first)
        await _check_config(admin)
        await _check_log_replica(admin, second, tmp_path)
    finally:
        await first.die()
        await second.die()


async def _check_metadata(admin: Admin) -> None:
    leader, seen, lines = 0, -1, [""]
    while seen != leader:  # another may have come while the JVM started
        leader = await admin.cluster.wait_leader()
        lines = _lines(await admin("getControllerMetaData"))
        seen = await admin.cluster.wait_leader()
    assert "#ControllerGroup\tcontrollers" in lines
    assert f"#ControllerLeaderId\tn{leader}" in lines
    assert f"#ControllerLeaderAddress\t{admin.cluster.remoting_addresses[leader]}" in lines
    for index, address in enumerate(admin.cluster.remoting_addresses):
        assert f"#Peer:\tn{index}:{address}" in lines


async def _check_sync_state_set(admin: Admin, first: FakeBroker, second: FakeBroker) -> None:
    lines = _lines(await admin("getSyncStateSet", "-b", GROUP))
    for line in (
        f"#brokerName\t{GROUP}",
        "#MasterBrokerId\t1",
        f"#MasterAddr\t{first.address}",
        "#MasterEpoch\t1",
        "#SyncStateSetEpoch\t2",
        "#SyncStateSetNums\t2",
    ):
        assert line in lines, lines
    for broker in (first, second):
        identity = (
            f"brokerName='{GROUP}', brokerId={broker.broker_id}, brokerAddress='{broker.address}', alive=true"
        )
        assert f"InSyncReplica:\tReplicaIdentity{{{identity}}}" in lines, lines


async def _check_election(admin: Admin, second: FakeBroker) -> None:
    lines = _lines(await admin("electMaster", "-b", "2", "-bn", GROUP, "-c", CLUSTER))
    for line in (
        f"#ClusterName\t{CLUSTER}",
        f"#BrokerName\t{GROUP}",
        f"#BrokerMasterAddr\t{second.address}",
        "#MasterEpoch\t2",
        "#SyncStateSetEpoch\t3",
        f"\t#Broker\t2\t{second.address}",
    ):
        assert line in lines, lines
    assert (await second.wait_notice(2)).header.master_broker_id == 2


async def _check_cleaning(admin: Admin, first: FakeBroker) -> None:
    text = await admin("cleanBrokerMetadata", "-b", "1", "-bn", GROUP, "-c", CLUSTER)
    assert "is still alive, clean up failure" in text
    await first.die()
    await admin.cluster.wait_group(CLUSTER, GROUP, lambda group: not group["replicas"][0]["alive"])
    text = await admin("cleanBrokerMetadata", "-b", "1", "-bn", GROUP, "-c", CLUSTER)
    assert f"clear broker {GROUP} metadata from controller success!" in text
    group = await admin.cluster.group_info(CLUSTER, GROUP)
    assert group is not None
    assert [replica["broker_id"] for replica in group["replicas"]] == [2]


async def _check_config(admin: Admin) -> None:
    everyone = ";".join(admin.cluster.remoting_addresses)
    text = await admin(
        "updateControllerConfig", "-k", "enableElectUncleanMaster", "-v", "true", address=everyone
    )
    assert "update controller config success!" in text
    lines = _lines(await admin("getControllerConfig", address=everyone))
    for address in admin.cluster.remoting_addresses:
        assert any(line.strip("=") == address for line in lines), lines
    assert sum("enableElectUncleanMaster" in line and line.endswith("true") for line in lines) == 3
    # This is what the operator compares with the spec.
    told = parse_controllers([await admin.cluster.status(index) for index in range(3)], None)
    assert told is not None
    changes = {"enableElectUncleanMaster": "true"}
    assert [one.changed_settings for one in told.controllers] == [changes, changes, changes]


async def _check_log_replica(admin: Admin, master: FakeBroker, directory: Path) -> None:
    """With unclean elections on, as they are by now."""
    replica = LogReplicaProcess(directory, CLUSTER, GROUP, admin.cluster.remoting_addresses)
    await replica.start()
    try:
        group = await admin.cluster.wait_group(
            CLUSTER,
            GROUP,
            lambda group: all(one["alive"] for one in group["replicas"][1:]) and len(group["replicas"]) == 2,
        )
        (log,) = [one for one in group["replicas"] if not one["electable"]]
        log_id = log["broker_id"]
        master.epoch = group["master_epoch"]
        await master.alter((2, log_id), group["sync_state_set_epoch"])
        lines = _lines(await admin("getSyncStateSet", "-b", GROUP))
        members = [line for line in lines if line.startswith("InSyncReplica:")]
        assert members == [
            f"InSyncReplica:\tReplicaIdentity{{brokerName='{name}', brokerId={broker_id}, "
            f"brokerAddress='{address}', alive=true}}"
            for name, broker_id, address in (
                (GROUP, 2, master.address),
                (f"{GROUP} (log replica)", log_id, replica.address),
            )
        ], lines
        await master.die()
        await admin.cluster.wait_group(CLUSTER, GROUP, lambda group: group["master_id"] is None)
        text = await admin("electMaster", "-b", str(log_id), "-bn", GROUP, "-c", CLUSTER)
        assert "#BrokerMasterAddr" not in text, text
        group = await admin.cluster.group_info(CLUSTER, GROUP) or {}
        assert group["master_id"] is None
        assert [one["broker_id"] for one in group["replicas"] if one["alive"]] == [log_id]
    finally:
        await replica.process.stop()
