"""A companion that gives its slave the users of the master; `test_comparison` has the requests."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller_core.access.request_signer import RequestSigner
from controller_core.access.signing import Credentials
from controller_core.access.user_table import UserTable
from controller_core.access.users import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from controller_core.remoting.numbers import BrokerId, LogOffset
from ha_sidecar.address import host_port
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.options import ConfigError
from ha_sidecar.companion import config as companion_config
from ha_sidecar.companion.companion import Companion
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts
from ha_sidecar.users.watch import UserWatch
from testkit.fakes.answering_broker import SIGNER, UserBroker
from testkit.processes.credentials import write_credentials

WAIT_S = 30.0
ALICE = UserInfo("alice", "secret-1", "Normal", "enable")
BOB = UserInfo("bob", "secret-2", "Normal", "enable")
SEND = AclInfo("User:alice", (PolicyInfo("Custom", (PolicyEntryInfo("Topic:T", ("Pub",), None, "Allow"),)),))
TABLE = UserTable.of([ALICE, BOB], [SEND])
NOTHING = UserTable()


class Pair:
    """A master and a slave, and the watch of the slave."""

    def __init__(self, master: UserBroker, slave: UserBroker, credentials: Path) -> None:
        self.master, self.slave = master, slave
        self.events = EventLog("c1", "b1", "", "companion")
        self.broker: BrokerFacts | None = BrokerFacts(
            BrokerId(2), slave.address, False, 1, LogOffset(0), None, ()
        )
        others = ((BrokerId(1), master.address, True), (BrokerId(2), slave.address, True))
        self.group = GroupFacts(BrokerId(1), master.address, 1, (BrokerId(1), BrokerId(2)), others)
        self.watch = UserWatch(
            host_port(slave.address),
            RequestSigner(credentials),
            self.events,
            lambda: self.broker,
            lambda: self.group,
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        async with asyncio.timeout(WAIT_S):
            while not holds():  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def _compare_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ha_sidecar.users.watch.COMPARE_S", 0.02)
    monkeypatch.setattr("ha_sidecar.users.watch.COMPARE_SOON_S", 0.02)


@contextlib.asynccontextmanager
async def watching(
    group: Any, directory: Path, master: UserTable, slave: UserTable, signer: Credentials = SIGNER
) -> AsyncIterator[Pair]:
    """Start a master and a slave with these users, and the slave's watch."""
    brokers = [await group.add_kind(UserBroker), await group.add_kind(UserBroker)]
    for broker, table in zip(brokers, (master, slave), strict=True):
        broker.has(table)
    made = Pair(brokers[0], brokers[1], write_credentials(directory, signer))
    running = asyncio.ensure_future(made.watch.run())
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_slave_without_users_may_not_lead_before_it_has_those_of_its_master(
    answering_group: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with watching(answering_group, tmp_path, TABLE, NOTHING) as pair:
        assert "lacks users of its master" in pair.watch.hindrance()
        await pair.until(lambda: pair.watch.in_sync is True)
        assert (pair.watch.hindrance(), pair.slave.table) == ("", TABLE)
        (event,) = pair.events.after(0)
        assert event["kind"] == "UsersCopied"
        assert event["attrs"]["count"] == "3"
        pair.master.users["alice"] = UserInfo("alice", "secret-3", "Normal", "disable")
        await pair.until(lambda: pair.slave.table == pair.master.table)
        assert pair.watch.hindrance() == ""
        pair.master.has(UserTable.of([BOB], []))
        await pair.until(lambda: pair.slave.table == pair.master.table)
        assert not [text for text in (caplog.text, str(event)) if "secret" in text or "inner-p" in text]


async def test_a_new_process_of_the_broker_may_not_lead_before_it_was_compared(
    answering_group: Any, tmp_path: Path
) -> None:
    async with watching(answering_group, tmp_path, TABLE, TABLE) as pair:
        await pair.until(lambda: pair.watch.in_sync is True)
        facts, pair.broker = pair.broker, None
        pair.slave.tells_users = pair.master.tells_users = True
        await pair.until(lambda: pair.watch.in_sync is None)
        pair.slave.has(NOTHING)
        pair.master.access_refusal = ""
        pair.broker = facts
        await pair.until(lambda: pair.slave.table == TABLE and pair.watch.in_sync is True)


async def test_a_master_has_no_other_to_be_compared_with(answering_group: Any, tmp_path: Path) -> None:
    async with watching(answering_group, tmp_path, NOTHING, TABLE) as pair:
        await pair.until(lambda: pair.watch.in_sync is True)
        assert pair.slave.table == TABLE  # nothing is deleted that this master was never seen to have
        pair.group = replace(
            pair.group, master_id=BrokerId(2), master_address=pair.slave.address, master_epoch=2
        )
        await pair.until(lambda: pair.watch.in_sync is None)
        assert (pair.watch.hindrance(), pair.slave.table) == ("", TABLE)


@pytest.mark.parametrize(
    "signer", [SIGNER, Credentials(SIGNER.username, "wrong")], ids=["no users yet", "wrong password"]
)
async def test_a_master_that_refuses_does_not_keep_its_slave_from_leading(
    answering_group: Any, tmp_path: Path, signer: Credentials, caplog: pytest.LogCaptureFixture
) -> None:
    async with watching(answering_group, tmp_path, TABLE, NOTHING, signer) as pair:
        pair.master.tells_users = False
        await pair.until(lambda: pair.watch.hindrance() == "")
        assert (pair.watch.in_sync, pair.slave.table) in [(None, NOTHING), (True, TABLE)]
        assert " refuses: " in caplog.text or pair.slave.table == TABLE


async def test_what_the_slave_refuses_keeps_nothing_else_from_it(
    answering_group: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with watching(answering_group, tmp_path, TABLE, NOTHING) as pair:
        pair.slave.refused_users = frozenset({"alice"})
        await pair.until(lambda: pair.watch.hindrance() == "")
        assert set(pair.slave.users) == {"bob"}
        assert pair.watch.in_sync is False
        assert "the slave, asked to create user alice, refuses" in caplog.text


async def test_readiness_and_status_of_a_companion_have_it(answering_group: Any, tmp_path: Path) -> None:
    brokers = [await answering_group.add_kind(UserBroker), await answering_group.add_kind(UserBroker)]
    for broker, table in zip(brokers, (TABLE, NOTHING), strict=True):
        broker.has(table)
    credentials = RequestSigner(write_credentials(tmp_path, SIGNER))
    companion = Companion(answering_group.config(brokers[1], credentials=credentials, keep_users=True))
    running = asyncio.ensure_future(companion.run())
    try:
        async with asyncio.timeout(WAIT_S):
            while not companion._readiness()[0]:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(0.01)
        assert brokers[1].table == TABLE
        assert companion._status()["users_in_sync"] is True
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_users_are_kept_with_credentials_only(tmp_path: Path) -> None:
    texts = {"cluster": "c", "group": "g", "broker": "h:1", "controllers": "h:2", "keep_users": "true"}
    with pytest.raises(ConfigError, match="keep-users needs credentials"):
        companion_config.from_texts(texts, serves=False)
    found = companion_config.from_texts(texts | {"credentials": str(tmp_path)}, serves=False)
    assert found.keep_users
    assert found.credentials is not None
    assert found.credentials.directory == tmp_path
