"""Stores of real brokers that predate controller mode go on in controller mode after a migration.

What a migration promises is held against Java itself: nothing that was acknowledged is lost, offsets go on
where they were, and a slave whose log is not its master's does not affect it.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller_core.access.signing import Credentials
from controller_core.access.users import ListUsersRequestHeader, UserInfo, UserRequestHeader, decode_list
from controller_core.remoting.codes import RequestCode
from ha_sidecar.commitlog.store import read_epochs
from ha_sidecar.decisions.metadata_comparison import OFFSETS, TOPICS, UpdateConsumerOffsetRequestHeader, names
from testkit.products.replica import log_prefix_equal
from testkit.rocketmq.broker_metadata import CONSUMERS, asking, create, has_all_made, must, wait_known
from testkit.rocketmq.group_without_controllers import (
    FILE_BYTES,
    MASTER,
    OLD_STORE,
    SLAVE,
    TOPIC,
    OldGroup,
    dledger,
)
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import Send, read_back
from testkit.rocketmq.processes import JavaBroker, NameServer

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]

ADMIN = Credentials("old-admin", "old-admin-password-1")
CLERK = "clerk"
KEPT = ("topics", "groups", "offsets", "consumed", "max_offset")


@pytest.fixture
async def old(tmp_path: Path, name_server: NameServer) -> AsyncIterator[OldGroup]:
    group = OldGroup(await jars(), tmp_path, name_server)
    yield group
    await group.stop()


@pytest.fixture
async def signed(tmp_path: Path, name_server: NameServer) -> AsyncIterator[OldGroup]:
    group = OldGroup(await jars(), tmp_path, name_server, ADMIN)
    yield group
    await group.stop()


def _ends(sends: list[Send]) -> dict[int, int]:
    """Return the next offset of each queue after these sends."""
    ends: dict[int, int] = {}
    for send in sends:
        if send.queue is not None and send.offset is not None:
            ends[send.queue] = max(ends.get(send.queue, 0), send.offset + 1)
    return ends


async def _unexpected_and_lost(old: OldGroup, sends: list[Send], name: str) -> tuple[int, int]:
    directory = old.directory / name
    result = await read_back(old.jars, old.name_server.address, TOPIC, sends, directory, old.user)
    return len(result.unexpected), len(result.lost)


async def test_a_master_and_its_slave_go_on_with_all_that_they_had(old: OldGroup) -> None:
    master = await old.start_old("master", MASTER)
    slave = await old.start_old("slave", SLAVE)
    await old.until_followed(master)
    sends = await old.send(1_000)
    async with asking(master) as asker:
        await create(asker)
    await old.permit("read", master, slave)
    await old.until_permissions(4)
    await old.permit("write", master, slave)
    await old.until_permissions(6)
    await old.permit("read", master, slave)
    await old.until_permissions(4)
    end_offset = await old.until_equal(master, slave)
    (before, other) = (await old.survey(master, slave))["brokers"]
    assert (before["broker_id"], other["broker_id"]) == (0, 1)
    assert (before["permission"], before["store"]) == (4, str(old.volume("master") / OLD_STORE))
    for broker in (master, slave):
        await broker.shut_down()

    verdicts = [await old.verify(name) for name in ("master", "slave")]
    assert [one["max_offset"] for one in verdicts] == [end_offset, end_offset]
    assert verdicts[0]["messages"] == verdicts[1]["messages"] >= 1_000
    for name in ("master", "slave"):
        adopted = await old.adopt(name, "keep")
        assert (adopted["max_offset"], adopted["stopped_in_order"]) == (end_offset, True)

    new_master, new_slave = await old.start_both_new("master", "slave")
    (after,) = (await old.survey(new_master))["brokers"]
    assert {key: after[key] for key in KEPT if after[key] < before[key]} == {}
    assert after["permission"] == 6
    async with asking(new_master) as asker:
        await wait_known(asker, has_all_made)
    more = await old.send(300)
    assert {queue: offset for queue, offset in _ends(sends).items() if _begins(more)[queue] < offset} == {}
    assert await _unexpected_and_lost(old, [*sends, *more], "read") == (0, 0)
    for broker in (new_slave, new_master):
        await broker.shut_down()
    for broker in (new_slave, new_master):
        entries = [(entry.epoch, entry.start_offset) for entry in read_epochs(broker.store)]
        assert entries[:2] == [(0, 0), (1, end_offset)]
    logs = [broker.store / "commitlog" for broker in (new_master, new_slave)]
    assert log_prefix_equal(logs[0], logs[1], end_offset)


def _begins(sends: list[Send]) -> dict[int, int]:
    """Return the first offset of each queue in these sends."""
    begins: dict[int, int] = {}
    for send in sends:
        if send.queue is not None and send.offset is not None:
            begins[send.queue] = min(begins.get(send.queue, send.offset), send.offset)
    return begins


async def _apart(old: OldGroup, *, slave_has_others: bool) -> list[Send]:
    """Run a master and a slave, and let the master alone take more; return what the master took.

    With `slave_has_others`, the slave then runs alone for a while too, as a master, and
    takes what the master never had.
    """
    master = await old.start_old("master", MASTER)
    slave = await old.start_old("slave", SLAVE)
    await old.until_followed(master)
    sends = await old.send(300)
    await old.until_equal(master, slave)
    async with asking(slave) as asker:
        await wait_known(asker, lambda known: TOPIC in (names(TOPICS, known.get(TOPICS, b"")) or ()))
    await slave.shut_down()
    sends += await old.send(200)
    await master.shut_down()
    if slave_has_others:
        alone = await old.start_old("slave", MASTER)
        await old.send(400)
        await alone.shut_down()
    return sends


@pytest.mark.parametrize("slave_has_others", [False, True], ids=["less", "others"])
async def test_a_slave_with_another_log_is_emptied_and_copies_its_masters(
    old: OldGroup, slave_has_others: bool
) -> None:
    sends = await _apart(old, slave_has_others=slave_has_others)
    masters, slaves = [await old.verify(name) for name in ("master", "slave")]
    assert (masters["messages"], masters["max_offset"]) != (slaves["messages"], slaves["max_offset"])
    assert (slaves["max_offset"] > masters["max_offset"]) is slave_has_others
    await old.adopt("master", "keep")
    await old.adopt("slave", "empty")
    master, slave = await old.start_both_new("master", "slave")
    assert await _unexpected_and_lost(old, sends, "read") == (0, 0)
    logs = [broker.store / "commitlog" for broker in (master, slave)]
    assert log_prefix_equal(logs[0], logs[1], masters["max_offset"])


async def test_a_slave_that_is_kept_and_goes_first_takes_its_masters_messages_away(old: OldGroup) -> None:
    """Show the trap that RocketMQ's documents warn of: a migration never does this."""
    sends = await _apart(old, slave_has_others=False)
    for name in ("master", "slave"):
        await old.adopt(name, "keep")
    await old.start_both_new("slave", "master")
    unexpected, lost = await _unexpected_and_lost(old, sends, "read")
    assert unexpected == 0
    assert lost >= 200


async def test_dledger_is_left_when_all_is_read_and_leaves_topics_and_groups(old: OldGroup) -> None:
    broker = await old.start_old("master", *dledger())
    sends = await old.send(60)
    async with asking(broker) as asker:
        await create(asker)
        nobody = (await old.survey(broker, unread=True))["unread"]
        assert [(one["topic"], one["group"]) for one in nobody] == [(TOPIC, "")]
        for less, expected in ((1, [(TOPIC, CONSUMERS, 1)]), (0, [])):
            for number, (queue, end) in enumerate(sorted(_ends(sends).items())):
                offset = end - less if number == 0 else end
                header = UpdateConsumerOffsetRequestHeader(CONSUMERS, TOPIC, queue, offset)
                await must(asker, RequestCode.UPDATE_CONSUMER_OFFSET, header)
            told = await old.survey(broker, unread=True)
            found = [(one["topic"], one["group"], one["messages"]) for one in told["unread"]]
            assert found == expected
    (before,) = told["brokers"]
    assert before["dledger"]
    assert before["broker_id"] == 0
    await old.permit("read", broker)
    await old.until_permissions(4)
    await broker.shut_down()
    await old.adopt("master", "metadata")
    left = {path.name for path in broker.store.rglob("*") if path.is_file()}
    assert left == {"topics.json", "subscriptionGroup.json"}

    await old.controllers.start()
    again = await old.start_new("master")
    await old.name_server.wait_for_master(again.place.group)
    (after,) = (await old.survey(again))["brokers"]
    assert after["topics"] >= before["topics"]
    assert after["groups"] >= before["groups"]
    assert after["min_offset"] <= 0, "a log without a file begins at -1, says Java"
    async with asking(again) as asker:
        known = await wait_known(asker, lambda snapshot: OFFSETS in snapshot)
        assert f"{TOPIC}@{CONSUMERS}" not in (names(OFFSETS, known[OFFSETS]) or ())
    more = await old.send(60)
    assert set(_begins(more).values()) == {0}
    assert await _unexpected_and_lost(old, more, "read") == (0, 0)


async def test_a_group_of_three_in_dledger_goes_on_from_a_member_that_did_not_lead(
    signed: OldGroup,
) -> None:
    settings = [one | {"registerNameServerPeriod": "10000"} for one in dledger(3)]
    members = await asyncio.gather(*(signed.start_old(f"n{at}", one) for at, one in enumerate(settings)))
    leader = await signed.until_one_leads(*members)
    sends = await signed.send(60)
    for one in members:
        await _make_clerk(signed, one)
    async with asking(leader, signed.sign) as asker:
        await create(asker)
        for queue, end in _ends(sends).items():
            header = UpdateConsumerOffsetRequestHeader(CONSUMERS, TOPIC, queue, end)
            await must(asker, RequestCode.UPDATE_CONSUMER_OFFSET, header)
    assert await signed.until_one_leads(*members) is leader
    others = [one for one in members if one is not leader]
    told = await signed.survey(*others, leader, unread=True)
    assert told["unread"] == [], "the command must ask the leader"
    before = next(one for one in told["brokers"] if one["broker_id"] == 0)
    await signed.permit("read", *members)
    await signed.until_permissions(4)
    await asyncio.gather(*(one.shut_down() for one in members))
    for one in members:
        await signed.adopt(one.place.name, "metadata")

    first, _ = await signed.start_both_new(others[0].place.name, leader.place.name)
    (after,) = (await signed.survey(first))["brokers"]
    assert {key: after[key] for key in ("topics", "groups") if after[key] < before[key]} == {}
    assert await _users(signed, first) == {ADMIN.username, CLERK}
    more = await signed.send(60)
    assert set(_begins(more).values()) == {0}
    assert await _unexpected_and_lost(signed, more, "read") == (0, 0)


async def _make_clerk(old: OldGroup, broker: JavaBroker) -> None:
    user = UserInfo(CLERK, "clerk-password-1", "Normal", "enable")
    async with asking(broker, old.sign) as asker:
        await must(asker, RequestCode.AUTH_CREATE_USER, UserRequestHeader(CLERK), user.encode())


async def _users(old: OldGroup, broker: JavaBroker) -> set[str | None]:
    async with asking(broker, old.sign) as asker:
        listed = await asker.ask(RequestCode.AUTH_LIST_USER, ListUsersRequestHeader())
    return {one.username for one in decode_list(listed.body, UserInfo)}


async def test_a_signed_group_goes_on_with_its_messages_and_users(signed: OldGroup) -> None:
    master, slave = await signed.start_old("master", MASTER), await signed.start_old("slave", SLAVE)
    await signed.until_followed(master)
    sends = await signed.send(300)
    await _make_clerk(signed, master)
    assert all("was answered 16" in text for text in await signed.refusals(master, slave))
    await signed.permit("read", master, slave)
    await signed.until_permissions(4)
    end_offset = await signed.until_equal(master, slave)
    (before, _) = (await signed.survey(master, slave))["brokers"]
    for broker in (master, slave):
        await broker.stop()
    for name in ("master", "slave"):
        assert (await signed.adopt(name, "keep"))["max_offset"] == end_offset

    new_master, _ = await signed.start_both_new("master", "slave")
    (after,) = (await signed.survey(new_master))["brokers"]
    assert {key: after[key] for key in KEPT if after[key] < before[key]} == {}
    assert await _users(signed, new_master) == {ADMIN.username, CLERK}
    assert await _unexpected_and_lost(signed, sends, "read") == (0, 0)


async def test_a_master_whose_oldest_file_is_gone_serves_a_slave_that_begins_empty(old: OldGroup) -> None:
    """Its first epoch must begin where the log begins, not where its mastership does.

    Otherwise Java sends an invalid stream.
    """
    master = await old.start_old("master", MASTER)
    await old.send(700)
    await master.shut_down()
    log = old.volume("master") / OLD_STORE / "commitlog"
    oldest, *others = sorted(path for path in log.iterdir() if path.name.isdigit())
    assert others
    oldest.unlink()
    adopted = await old.adopt("master", "keep")
    assert adopted["min_offset"] == int(others[0].name) > 0
    new_master, new_slave = await old.start_both_new("master", "slave")
    end_offset = await old.until_equal(new_master, new_slave)
    assert end_offset >= adopted["max_offset"]
    for path in sorted((new_slave.store / "commitlog").iterdir()):
        if path.name.isdigit() and int(path.name) < end_offset:
            length = min(FILE_BYTES, end_offset - int(path.name))
            held = (new_master.store / "commitlog" / path.name).read_bytes()[:length]
            assert path.read_bytes()[:length] == held
