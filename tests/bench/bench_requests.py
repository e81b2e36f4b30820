"""CPU time of one request inside the leader, from its bytes to its answer's, without sockets or other nodes.

Run it: `python tests/bench/bench_requests.py [--chunk 25] [--rounds 40]`. A real node, alone, with
its log in memory, is given frames as the loop would give them, `--chunk` to a read, and its
connection writes to nowhere. Printed is the best round of each kind in CPU time, on which other work
on the machine has little effect.

A change of the SyncStateSet (alter) passes through Raft, the log in memory and the state machine; what the
two other nodes cost the leader is not in its figure. `--profile` prints where the time of one kind goes.
"""

import argparse
import asyncio
import cProfile
import pstats
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from controller_core.channel.connection import Connection
from controller_core.groups.keys import GroupKey
from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from controller_core.remoting.header import Header
from testkit.products.one_controller import OneNode, one_node

KINDS = ("alter", "get-replica-info", "heartbeat", "register")
PROFILE_LINES = 50
GROUPS = 100
REQUESTS = 1_000
CLUSTER = "bench"
ALIVE_MS = 600_000
PREPARED_WITHIN_S = 20.0


class Nowhere(asyncio.Transport):
    """Buffers writes until the benchmark reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def get_extra_info(self, name: str, default: object = None) -> Any:
        """Know nothing of a socket."""
        return default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def abort(self) -> None:
        """Do nothing."""


def frame(code: int, header: Header, opaque: int) -> bytes:
    """Return a request as a broker sends it."""
    return encode(RemotingCommand.request(code, header.to_ext()).with_opaque(opaque))


def address(group: int) -> str:
    """Return an address of its own for each group."""
    return f"127.0.1.{group + 1}:1"


def beat(group: int, opaque: int, member: int = 1, epoch: int = 1) -> bytes:
    """Return a heartbeat of a member of a group."""
    header = headers.BrokerHeartbeatRequestHeader(
        CLUSTER, address(group), f"b{group}", member, epoch, 100, 100, ALIVE_MS
    )
    return frame(RequestCode.BROKER_HEARTBEAT, header, opaque)


def request(kind: str, number: int) -> bytes:
    """Return one of the measured requests."""
    group = number % GROUPS
    match kind:
        case "heartbeat":
            return beat(group, number)
        case "get-replica-info":
            header: Header = headers.GetReplicaInfoRequestHeader(f"b{group}")
            return frame(RequestCode.CONTROLLER_GET_REPLICA_INFO, header, number)
        case _:
            header = headers.RegisterBrokerToControllerRequestHeader(CLUSTER, f"b{group}", 1, address(group))
            return frame(RequestCode.CONTROLLER_REGISTER_BROKER, header, number)


def connected(node: OneNode) -> tuple[Connection, Nowhere]:
    """Return a connection that the node takes for a broker's."""
    accept = node.controller._remoting._on_connection
    connection, transport = Connection(on_made=accept), Nowhere()
    connection.connection_made(transport)
    return connection, transport


def alteration(group: int, number: int) -> bytes:
    """Return a group's request for its other SyncStateSet: it has had as many before as the number says."""
    header = headers.AlterSyncStateSetRequestHeader(f"b{group}", 1, 1)
    wanted = SyncStateSet.of((1,) if number % 2 else (1, 2), number + 1)
    request = RemotingCommand.request(
        RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET, header.to_ext(), wanted.encode()
    )
    return encode(request.with_opaque(group))


async def prepare(node: OneNode) -> tuple[Connection, Nowhere]:
    """Make groups of a living master and a living slave; return the connection that holds them."""
    connection, transport = connected(node)
    names = [GroupKey(CLUSTER, f"b{group}") for group in range(GROUPS)]
    for group, key in enumerate(names):
        for member in (1, 2):
            claim = headers.ApplyBrokerIdRequestHeader(*key, member, f"{address(group)};{member}")
            connection.data_received(frame(RequestCode.CONTROLLER_APPLY_BROKER_ID, claim, 1))
    async with asyncio.timeout(PREPARED_WITHIN_S):
        while not all((made := node.machine.state.get(key)) and 2 in made.replicas for key in names):  # noqa: ASYNC110 - without a notification
            await asyncio.sleep(0.01)
        for group, key in enumerate(names):
            for member in (1, 2):
                connection.data_received(beat(group, 2, member, epoch=0))
            elect = headers.ElectMasterRequestHeader(key.broker_name, key.cluster, 1)
            connection.data_received(frame(RequestCode.CONTROLLER_ELECT_MASTER, elect, 3))
        while not all((made := node.machine.state.get(key)) and made.master_id for key in names):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return connection, transport


async def measure(node: OneNode, kind: str, chunk: int, rounds: int) -> float:
    """Return the CPU time of a request in the best round, in microseconds."""
    connection, transport = connected(node)
    frames = [request(kind, number) for number in range(REQUESTS)]
    reads = [b"".join(frames[at : at + chunk]) for at in range(0, REQUESTS, chunk)]
    best_s = float("inf")
    for _ in range(rounds):
        transport.written.clear()
        begun_s = time.process_time()
        for read in reads:
            connection.data_received(read)
        best_s = min(best_s, time.process_time() - begun_s)
        await asyncio.sleep(0.002)  # the node's own ticks, and the few requests that had to wait
    answers = FrameDecoder().feed(b"".join(transport.written))
    if len(answers) < REQUESTS or any(answer.code for answer in answers):
        raise SystemExit(f"{kind}: {len(answers)} answers, some refused")
    return best_s * 1e6 / REQUESTS


async def measure_alter(connection: Connection, transport: Nowhere, chunk: int, rounds: int) -> float:
    """Return the CPU time of a change of the SyncStateSet in the best round, in microseconds.

    Each round has a change of every group.
    """
    best_s = float("inf")
    for number in range(rounds):
        frames = [alteration(group, number) for group in range(GROUPS)]
        transport.written.clear()
        begun_s = time.process_time()
        for at in range(0, GROUPS, chunk):
            connection.data_received(b"".join(frames[at : at + chunk]))
        answers: list[RemotingCommand] = []
        while len(answers) < GROUPS:
            await asyncio.sleep(0)
            answers = FrameDecoder().feed(b"".join(transport.written)) if transport.written else []
        best_s = min(best_s, time.process_time() - begun_s)
        if refused := [answer.remark for answer in answers if answer.code]:
            raise SystemExit(f"alter: {len(refused)} refused, one with {refused[0]}")
    return best_s * 1e6 / GROUPS


async def run(options: argparse.Namespace) -> None:
    """Measure each kind and print a line."""
    with tempfile.TemporaryDirectory() as directory:
        async with one_node(Path(directory), {"notifyBrokerRoleChanged": "false"}) as node:
            holding = await prepare(node)
            for kind in options.kind or KINDS:
                profile = cProfile.Profile()
                if options.profile:
                    profile.enable()
                if kind == "alter":
                    cost_us = await measure_alter(*holding, options.chunk, options.rounds * 10)
                else:
                    cost_us = await measure(node, kind, options.chunk, options.rounds)
                profile.disable()
                sys.stdout.write(f"{kind:<18} {cost_us:6.1f} µs of CPU per request\n")
                if options.profile:
                    pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(PROFILE_LINES)


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--chunk", type=int, default=25, help="requests in one read of the socket")
    parser.add_argument("--kind", action="append", choices=KINDS, help="which; may be given again")
    parser.add_argument(
        "--profile", action="store_true", help="print where the time goes; it costs time, too"
    )
    parser.add_argument("--rounds", type=int, default=40, help="of a thousand requests each")
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
