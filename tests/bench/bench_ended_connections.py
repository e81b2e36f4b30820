"""How often an unmodified Java producer forgets a send as its connection ends, by how the server's process is ended.

Run it: `python tests/bench/bench_ended_connections.py [--rounds 80] [--version 5.5.0]`. It prints one line for each way:

    kill         SIGKILL, while sends are under way
    stop, kill   SIGSTOP, then SIGKILL when no client has asked anything more for 0.1 s, as a broker's preStop does

Every send is answered after 4 ms, and whoever dials anew is served by the next process: the port never refuses. So a send that
fails is one that the client forgot and gave up after its own 3 s.
"""

import argparse
import asyncio
import json
import signal
import socket
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

from controller_core.channel import Connection, serve
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import FrameDecoder, encode
from ha_sidecar.roles.relaying import SENDS
from testkit.jars import DEFAULT_VERSION, jars
from testkit.load import LoadClient, LoadSettings

ANSWER_AFTER_S: Final = 0.004
LOOK_AGAIN_S: Final = 0.025
LOOKS_MAX: Final = 12
LOOKS_ALIKE: Final = 4
BETWEEN_ROUNDS_S: Final = 1.0
UNSERVED_S: Final = 0.1
"""About as long as an election takes: who dials meanwhile waits with the kernel."""
TIMED_OUT_S: Final = 3.5
SENDS_FIRST: Final = 200
LOAD: Final = LoadSettings(threads=4, rate=200)
ANSWER: Final = {"msgId": "1", "queueId": "0", "queueOffset": "1"}


class Serving:
    """The part of the process that is ended: takes connections while it is told to, and answers."""

    def __init__(self, listener: socket.socket) -> None:
        """Take the listener, which all processes share."""
        self._listener: Final = listener
        self._works: Final[set[asyncio.Task[None]]] = set()

    async def run(self) -> None:
        """Do as standard input says until it ends: "take" connections, or "leave" them to others."""
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            if line.strip() == "take":
                loop.add_reader(self._listener, self._accept)
            else:
                loop.remove_reader(self._listener)
            sys.stdout.write(line)
            sys.stdout.flush()

    def _accept(self) -> None:
        try:
            connection = self._listener.accept()[0]
        except BlockingIOError:
            return
        self._begin(self._serve(connection))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    async def _serve(self, connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        decoder = FrameDecoder()
        while data := await reader.read(1 << 16):
            for request in decoder.feed(data):
                if not (request.is_oneway or request.is_response):
                    self._begin(self._answer(writer, request))

    async def _answer(self, writer: asyncio.StreamWriter, request: RemotingCommand) -> None:
        await asyncio.sleep(ANSWER_AFTER_S)
        ext = ANSWER if request.code in SENDS else {}
        writer.write(encode(RemotingCommand.response_to(request, ResponseCode.SUCCESS, ext=ext)))


async def started(listener: socket.socket) -> Process:
    """Start a process that could serve the listener."""
    number = str(listener.fileno())
    return await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, "--serve", number), stdin=PIPE, stdout=PIPE, pass_fds=[listener.fileno()]
    )


async def told(process: Process, word: str) -> None:
    """Tell a process what to do, and wait until it does."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{word}\n".encode())
    assert await process.stdout.readline() == f"{word}\n".encode()


def unread(port: int) -> list[tuple[str, str]]:
    """Return for each connection to a port who is at its other end and how many bytes nobody has read."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return [(line[2], line[4]) for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "01"]


async def end(process: Process, port: int, *, stops_first: bool) -> None:
    """End a server's process in one of the two ways."""
    if stops_first:
        process.send_signal(signal.SIGSTOP)
        before, alike = unread(port), 0
        for _ in range(LOOKS_MAX):
            await asyncio.sleep(LOOK_AGAIN_S)
            now = unread(port)
            alike = alike + 1 if now == before else 0
            if alike == LOOKS_ALIKE:
                break
            before = now
    process.kill()
    await process.wait()


def route(port: int) -> bytes:
    """Return the route to a broker at a port of loopback."""
    queues = {"brokerName": "b", "perm": 6, "readQueueNums": 8, "writeQueueNums": 8, "topicSysFlag": 0}
    brokers = {"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": f"127.0.0.1:{port}"}}
    return json.dumps({"brokerDatas": [brokers], "queueDatas": [queues], "filterServerTable": {}}).encode()


async def measured(classes: Path, rounds: int, *, stops_first: bool) -> str:
    """End one process after another under load; return what became of the sends as a line."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=1024) as listener,
        tempfile.TemporaryDirectory() as directory,
    ):
        listener.setblocking(False)
        port = listener.getsockname()[1]

        def routes(_: Connection, request: RemotingCommand) -> RemotingCommand:
            body = route(port) if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC else b""
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)

        server = await serve("127.0.0.1", 0, lambda connection: setattr(connection, "on_request", routes))
        client = LoadClient(classes, f"127.0.0.1:{server.port}", "t", Path(directory), LOAD)
        process = await started(listener)
        await told(process, "take")
        async with client:
            await client.wait_for_acknowledged(SENDS_FIRST)
            for _ in range(rounds):
                follower = await started(listener)
                await asyncio.sleep(BETWEEN_ROUNDS_S)
                await told(process, "leave")
                await end(process, port, stops_first=stops_first)
                await asyncio.sleep(UNSERVED_S)
                await told(follower, "take")
                process = follower
            await asyncio.sleep(TIMED_OUT_S)
            stats = client.stats()
        process.kill()
        await process.wait()
        await server.close()
    way = "stop, kill" if stops_first else "kill"
    return f"{way}: {rounds} processes ended, {stats.acknowledged} sends answered, {stats.failed} forgotten\n"


async def run(rounds: int, version: str) -> None:
    """Measure both ways, one after the other."""
    classes = await jars(version)
    for stops_first in (False, True):
        sys.stdout.write(await measured(classes, rounds, stops_first=stops_first))
        sys.stdout.flush()


def main() -> None:
    """Read the arguments; measure, or be the process that is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--version", default=DEFAULT_VERSION, help="the client's release")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is None:
        asyncio.run(run(arguments.rounds, arguments.version))
    else:
        asyncio.run(Serving(socket.socket(fileno=arguments.serve)).run())


if __name__ == "__main__":
    main()
