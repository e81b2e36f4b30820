"""Heartbeats of node agents over real connections: who may send them, their bounds, and their effect."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from controller_core import limits
from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.groups.keys import BrokerId, GroupKey, MasterEpoch, ReplicaKey
from controller_core.groups.liveness import node_agents
from controller_core.groups.liveness.node_agents import Verdict
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.nodes.bodies import (
    AskedMember,
    NamedMember,
    NodeAnswer,
    NodeHeartbeat,
    NodeQuestion,
)
from controller_core.remoting.nodes.token import TOKEN_FIELD, node_token
from controller_core.server.requests import sender_rules
from testkit.fakes.broker import FakeBroker
from testkit.products.one_controller import OneNode

HOST = "127.0.0.1"
WITHIN_S = 60.0
TOKEN = "let-me-in"  # noqa: S105 - a made-up token
FIRST, SECOND = (ReplicaKey("c1", "b1", BrokerId(number)) for number in (1, 2))
NAMED = (NamedMember("b1", 1, HOST),)


@contextlib.asynccontextmanager
async def _agent(one: OneNode) -> AsyncIterator[Connection]:
    connection = await connect(HOST, int(one.remoting.rpartition(":")[2]), WITHIN_S)
    try:
        yield connection
    finally:
        connection.abort()


async def _beat(
    connection: Connection, members: tuple[NamedMember, ...] = NAMED, token: str = ""
) -> RemotingCommand:
    body = NodeHeartbeat(members).encode()
    request = RemotingCommand.request(RequestCode.NODE_HEARTBEAT, {TOKEN_FIELD: token}, body)
    return await connection.call(request, WITHIN_S)


async def _two_members(one: OneNode) -> tuple[FakeBroker, FakeBroker]:
    master, slave = one.broker(timeout_ms=60_000), one.broker(timeout_ms=60_000)
    await master.start()
    await master.elect()
    master.epoch = 1
    await slave.start()
    assert (await master.alter((1, 2), set_epoch=1)).code == ResponseCode.SUCCESS
    for key in (FIRST, SECOND):
        entry = one.heartbeats.table.get(key)
        assert entry is not None
        entry.starting_until_ms = 0
    return master, slave


async def test_a_master_that_is_silent_with_its_agent_is_replaced_as_lost_with_its_node(
    one: OneNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_agents, "TRUST_MS", 200)
    master, slave = await _two_members(one)
    async with _agent(one) as agent:
        until_s = asyncio.get_running_loop().time() + 0.7
        while asyncio.get_running_loop().time() < until_s:
            assert (await _beat(agent)).code == ResponseCode.SUCCESS
            await asyncio.sleep(0.05)
        await master.fall_silent()
        began_s = asyncio.get_running_loop().time()
        notice = await slave.wait_notice(2)
        assert notice.at_s - began_s > 0.4, "not before both were silent for nodeTimeoutMs"
    record = one.machine.state.history.failover(GroupKey("c1", "b1"), MasterEpoch(2))
    assert record is not None
    assert record.cause == "NodeLost"
    await slave.die()
    await master.die()


async def test_an_agent_names_only_members_at_the_host_of_their_heartbeats(one: OneNode) -> None:
    master, slave = await _two_members(one)
    async with _agent(one) as agent:
        elsewhere = (
            NamedMember("b1", 2, "127.0.0.9"),
            NamedMember("b1", 77, HOST),
            NamedMember("b2", 1, HOST),
        )
        assert (await _beat(agent, (*NAMED, *elsewhere))).code == ResponseCode.SUCCESS
        assert one.heartbeats.agents.named_count == 1
    for broker in (master, slave):
        await broker.die()


async def test_a_stranger_is_no_agent(one: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_rules, "_is_loopback", lambda _host: False)
    async with _agent(one) as agent:
        for token in ("", TOKEN, node_token(TOKEN)):
            answer = await _beat(agent, token=token)
            assert answer.code == ResponseCode.NO_PERMISSION
            assert "agents' token" in (answer.remark or "")
    assert len(one.heartbeats.agents) == 0


@pytest.mark.parametrize("given", [{"httpToken": TOKEN, "plainAdminRequests": "true"}])
async def test_an_agent_has_a_token_of_its_own(one: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_rules, "_is_loopback", lambda _host: False)
    async with _agent(one) as agent:
        assert (await _beat(agent)).code == ResponseCode.NO_PERMISSION
        assert (await _beat(agent, token=TOKEN)).code == ResponseCode.NO_PERMISSION
        assert (await _beat(agent, token=node_token(TOKEN))).code == ResponseCode.SUCCESS
        assert len(one.heartbeats.agents) == 1


async def test_a_heartbeat_and_a_question_have_bounds(one: OneNode) -> None:
    count = limits.NODE_MEMBERS_MAX + 1
    bodies = [
        (NodeHeartbeat(NAMED * count).encode(), f"names {count} members, at most {count - 1}"),
        (NodeHeartbeat((NamedMember("x" * 256, 1, HOST),)).encode(), "a text has 256 bytes, at most 255"),
        (NodeHeartbeat((NamedMember("b1", 1, "x" * 301),)).encode(), "a text has 301 bytes, at most 300"),
        (b" " * limits.NODE_BEAT_BYTES_MAX + b"{}", f"at most {limits.NODE_BEAT_BYTES_MAX} are allowed"),
        (b"[]", "body does not fit"),
        (b"", "is empty"),
    ]
    question = NodeQuestion((AskedMember("c1", "b1", 1),) * count).encode()
    async with _agent(one) as agent:
        for body, remark in bodies:
            request = RemotingCommand.request(RequestCode.NODE_HEARTBEAT, None, body)
            answer = await agent.call(request, WITHIN_S)
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert remark in (answer.remark or ""), body[:50]
        answer = await agent.call(
            RemotingCommand.request(RequestCode.NODE_VERDICTS, None, question), WITHIN_S
        )
        assert answer.code == ResponseCode.SYSTEM_ERROR
    assert len(one.heartbeats.agents) == 0


async def test_agents_beyond_the_bound_are_told_so(one: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "NODE_AGENTS_MAX", 1)
    async with _agent(one) as first, _agent(one) as second:
        assert (await _beat(first)).code == ResponseCode.SUCCESS
        assert (await _beat(second)).code == ResponseCode.SYSTEM_BUSY
        assert (await _beat(first)).code == ResponseCode.SUCCESS


async def test_a_question_has_an_answer_for_each_member(one: OneNode) -> None:
    master, slave = await _two_members(one)
    async with _agent(one) as agent:
        assert (await _beat(agent)).code == ResponseCode.SUCCESS
        asked = (AskedMember("c1", "b1", 1), AskedMember("c1", "b1", 2), AskedMember("c1", "b9", 1))
        request = RemotingCommand.request(RequestCode.NODE_VERDICTS, None, NodeQuestion(asked).encode())
        answer = await agent.call(request, WITHIN_S)
    expected = (Verdict.HEARD, Verdict.UNKNOWN, Verdict.UNKNOWN)
    assert NodeAnswer.decode(bytes(answer.body)).verdicts == tuple(verdict.value for verdict in expected)
    for broker in (master, slave):
        await broker.die()
