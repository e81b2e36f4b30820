"""One connection that floods does not fill the turns of the loop, and loses nothing."""

import asyncio
import itertools
import time
from dataclasses import replace

from controller_core.channel import Connection, connect, serve
from controller_core.channel.endpoints import DEFAULT_BOUNDS
from controller_core.channel.memory import MemoryBudget
from controller_core.channel.turns import PIECE_BYTES, TURN_S
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import encode

LIMIT_S = 60.0
REQUESTS = 4_000
WORK_S = 0.0002


async def test_a_flood_of_requests_is_taken_up_in_order_and_others_are_served_between() -> None:
    opaques: list[int] = []
    turns: list[int] = []

    def adopt(connection: Connection) -> None:
        connection.on_request = work

    def work(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
        if request.code == 2:
            return RemotingCommand.response_to(request, len(opaques))
        opaques.append(request.opaque)
        time.sleep(WORK_S)
        return RemotingCommand.response_to(request, 0)

    async def count_turns() -> None:
        while True:
            turns.append(len(opaques))
            await asyncio.sleep(0)

    budget = MemoryBudget(1 << 30)
    server = await serve("127.0.0.1", 0, adopt, replace(DEFAULT_BOUNDS, budget=budget, shares_turns=True))
    other = await connect("127.0.0.1", server.port, LIMIT_S)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    counting = asyncio.create_task(count_turns())
    frames = b"".join(encode(RemotingCommand(1, opaque)) for opaque in range(REQUESTS))
    writer.write(frames)
    async with asyncio.timeout(LIMIT_S):
        answer = await other.call(RemotingCommand.request(2), LIMIT_S)
        assert answer.code < REQUESTS  # it did not wait for the whole flood
        while len(opaques) < REQUESTS:
            await reader.read(1 << 20)
    counting.cancel()
    assert opaques == list(range(REQUESTS))
    largest = max(after - before for before, after in itertools.pairwise(turns))
    frame_bytes = len(frames) // REQUESTS
    assert largest <= 2 * (PIECE_BYTES // frame_bytes + TURN_S / WORK_S) + 2
    writer.close()
    other.close()
    await server.close()
    assert budget.held_bytes == 0
