"""A stranger on the peers' port that poses as a member changes nothing, and the cluster serves on."""

import asyncio
import contextlib
import logging
import struct
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from controller_core.groups.snapshots import Image, encode_image
from controller_core.raft.types import (
    ConfState,
    Entry,
    LogIndex,
    Message,
    MessageType,
    NodeId,
    Snapshot,
    Term,
)
from controller_core.server.node.applied import AppliedLog
from controller_core.server.node.member_book import MemberBook, wrap
from controller_core.server.node.state_machine import GroupsMachine
from controller_core.server.peers import codec, links
from controller_core.server.peers.codec import Greeting, GreetingAnswer
from controller_core.server.peers.greeting_rules import store_fingerprint
from controller_core.server.peers.transport import PeerTransport
from testkit.processes.ports import free_port
from testkit.processes.troubled_disk import UnsyncedFiles
from testkit.raft.nodes import ClusterNode, NodeCluster

WITHIN_S = 60.0
VOTERS = ConfState(voters=(NodeId(1), NodeId(2), NodeId(3)))


class Stranger:
    """An attacker that connects to a node's peer port in the name of a member."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: int) -> None:
        self._reader, self._writer, self.name = reader, writer, name
        self.reply = codec.GreetingReply()

    async def send(self, message: Message) -> bool:
        """Send a message and return whether the node then closes the connection."""
        self._writer.write(codec.encode_message(message))
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(self._reader.read(), WITHIN_S) == b""
        return True


@contextlib.asynccontextmanager
async def stranger(port: int, name: int, to: int, *, asks: bool = False) -> AsyncIterator[Stranger]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = Stranger(reader, writer, name)
    try:
        greeting = Greeting(codec.PROTOCOL_VERSION, "test", name, to, asks=asks)
        writer.write(codec.encode_greeting(greeting))
        (length,) = struct.unpack(">I", await asyncio.wait_for(reader.readexactly(4), WITHIN_S))
        found.reply = codec.decode_reply(await reader.readexactly(length))
        yield found
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def hostile(victim: ClusterNode, name: int) -> list[tuple[str, Message]]:
    """Return messages that broke nodes, each with the reason it is refused for."""
    node_id, term = victim.node.config.node_id, victim.node.term
    to, from_ = NodeId(node_id), NodeId(name)
    beat = Message(MessageType.HEARTBEAT, to, from_, Term(term))
    image = wrap(MemberBook(), encode_image(Image(applied_index=10**6, applied_term=term + 50)))
    snapshot = Snapshot(LogIndex(10**6), Term(term + 50), VOTERS, image)
    return [
        ("term", replace(beat, term=Term(2**64 - 1))),
        ("term", replace(beat, term=Term(2**40))),
        ("term", replace(beat, term=Term(0))),
        ("term", replace(beat, type=MessageType.VOTE, term=Term(2**63), index=LogIndex(2**62))),
        ("index", replace(beat, term=Term(term + 1), commit=LogIndex(10**6))),
        ("leader", Message(MessageType.SNAP, to, from_, Term(term + 50), snapshot=snapshot)),
        ("leader", replace(beat, type=MessageType.TIMEOUT_NOW, term=Term(term + 1))),
        ("type", replace(beat, type=MessageType.HUP, term=Term(0))),
        ("type", replace(beat, type=MessageType.TRANSFER_LEADER)),
        ("type", replace(beat, type=MessageType.PROP, entries=(Entry(Term(0), LogIndex(0), data=b"x"),))),
        ("type", replace(beat, type=MessageType.STORAGE_APPEND_RESP, index=LogIndex(2**63))),
        ("sender", replace(beat, from_=NodeId(node_id))),
    ]


async def test_what_no_member_sends_changes_nothing_and_is_counted_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with NodeCluster(3, tmp_path, files=UnsyncedFiles()) as cluster:
        leader = await cluster.leader()
        assert await leader.node.propose(b"before") == 1
        await cluster.settle(1)
        expected: dict[str, int] = {}
        with caplog.at_level(logging.WARNING):
            for victim in cluster.members.values():
                node_id, name = victim.node.config.node_id, 1 + victim.node.config.node_id % 3
                for reason, message in hostile(victim, name):
                    if message.from_ != name:
                        reason = "form"  # The connection is another node's.
                    expected[reason] = expected.get(reason, 0) + 1
                    async with stranger(victim.transport.port, name, node_id) as intruder:
                        assert intruder.reply.why == GreetingAnswer.NONE
                        assert await intruder.send(message), message
                assert victim.transport.refusals.counts == expected
                expected.clear()
        said = [record for record in caplog.records if "closed for what came in" in record.getMessage()]
        assert len(said) == 3 * 5
        assert not any(member.fatal for member in cluster.members.values())
        leader = await cluster.leader()
        assert await leader.node.propose(b"after") == 2
        assert leader.node.term < 100
    async with NodeCluster(3, tmp_path, files=UnsyncedFiles()) as again:
        again.addresses |= {node_id: ("127.0.0.1", free_port()) for node_id in again.ids}
        leader = await again.leader()
        assert leader.machine.commands == [b"before", b"after"]


async def test_an_answer_to_a_stranger_never_tells_a_store() -> None:
    peers = {1: ("127.0.0.1", free_port()), 2: ("127.0.0.1", free_port())}
    transport = PeerTransport("test", 1, peers, incarnation="secret-1", bind_host="127.0.0.1")
    transport.set_peer(2, peers[2], incarnation="secret-2")

    class Deaf:
        def receive(self, message: Message) -> None:
            raise AssertionError(message)

        def peer_unreachable(self, node_id: int) -> None:
            pass

        def snapshot_sent(self, node_id: int, ok: bool) -> None:
            pass

    await transport.start(Deaf())
    try:
        for waiting in (False, True):
            transport.waiting = waiting
            for asks in (False, True):
                for name, to in ((2, 1), (7, 1), (1, 1), (2, 3)):
                    async with stranger(transport.port, name, to, asks=asks) as intruder:
                        assert intruder.reply.why != GreetingAnswer.NONE
                        assert intruder.reply.incarnation == ""
                        assert "secret" not in intruder.reply.reason
    finally:
        await transport.stop()


def test_a_stores_fingerprint_tells_stores_apart_and_is_not_the_store() -> None:
    found = {store_fingerprint(incarnation) for incarnation in ("a", "b", "c")}
    assert len(found) == 3
    assert all(len(fingerprint) == 16 and fingerprint not in "abc" for fingerprint in found)
    assert store_fingerprint("") == ""


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (Image(applied_index=7, last_sequence=0), None),
        (Image(applied_index=10, last_sequence=0), "its state is of index 10, expected 0 to 9"),
    ],
)
def test_the_groups_of_a_snapshot_are_read_before_it_is_taken(image: Image, problem: str | None) -> None:
    applied = AppliedLog(GroupsMachine(), Snapshot())
    snapshot = Snapshot(LogIndex(9), Term(1), VOTERS, wrap(MemberBook(), encode_image(image)))
    assert applied.snapshot_problem(snapshot) == problem


def test_a_snapshot_that_takes_the_groups_backwards_is_refused() -> None:
    image = encode_image(Image(applied_index=5, applied_term=1, last_sequence=40))
    applied = AppliedLog(GroupsMachine(), Snapshot(LogIndex(5), Term(1), VOTERS, image))
    for state, problem in (
        (Image(applied_index=9), "its last event is 0, this node has 40"),
        (Image(applied_index=4, last_sequence=41), "its state is of index 4, expected 5 to 9"),
        (Image(applied_index=9, last_sequence=41), None),
    ):
        snapshot = Snapshot(LogIndex(9), Term(1), VOTERS, wrap(MemberBook(), encode_image(state)))
        assert applied.snapshot_problem(snapshot) == problem


@pytest.mark.parametrize("data", [b"", b"rubbish", b"RMQHAMB1\0\0\0\5xxxxx", wrap(MemberBook(), b"")])
def test_a_snapshot_that_cannot_be_read_is_refused_before_it_is_on_disk(data: bytes) -> None:
    applied = AppliedLog(GroupsMachine(), Snapshot(LogIndex(1), Term(1), VOTERS, GroupsMachine().snapshot()))
    assert applied.snapshot_problem(Snapshot(LogIndex(9), Term(1), VOTERS, data))


async def test_a_member_connects_while_strangers_hold_all_places_of_the_peers_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "GREETING_S_MAX", WITHIN_S)
    async with NodeCluster(3, tmp_path, files=UnsyncedFiles()) as cluster:
        leader = await cluster.leader()
        port = leader.transport.port
        places = leader.transport._places
        places.total_max = places.source_max = 12
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(40)]
        member = 1 + leader.node.config.node_id % 3
        async with stranger(port, member, leader.node.config.node_id) as late:
            assert late.reply.why == GreetingAnswer.NONE
        assert await asyncio.wait_for(silent[0][0].read(), WITHIN_S) == b""
        assert places.taken <= 12
        assert await leader.node.propose(b"x") == 1
        for _, writer in silent:
            writer.transport.abort()
