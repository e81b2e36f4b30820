"""Simulated processes and their network.

A kill, a freeze, a clock and a cut affect code that does not know of them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from testkit.sim.loop.simulated_network import STALL_S, Network
from testkit.sim.loop.virtual_loop import NothingScheduledError, Process, VirtualLoop, virtual_loop


def simulate(work: Callable[[VirtualLoop, Network], Awaitable[None]]) -> None:
    with virtual_loop() as loop:
        network = Network(loop, Random(1))
        loop.run_until_complete(work(loop, network))
        assert not [context for context in loop.errors if "callback" in context["message"]]


def test_an_hour_passes_at_once() -> None:
    async def work(loop: VirtualLoop, _network: Network) -> None:
        await asyncio.sleep(3_600)
        assert loop.now_s == pytest.approx(3_600)

    simulate(work)


def test_waiting_for_what_cannot_happen_is_an_error() -> None:
    with virtual_loop() as loop, pytest.raises(NothingScheduledError):
        loop.run_until_complete(asyncio.Event().wait())


def test_a_killed_process_does_nothing_more_not_even_in_finally() -> None:
    seen: list[str] = []

    async def live() -> None:
        try:
            while True:
                await asyncio.sleep(1)
                seen.append("beat")
        finally:
            seen.append("finally")

    async def work(loop: VirtualLoop, _network: Network) -> None:
        process = Process(loop, "victim")
        process.spawn(live())
        await asyncio.sleep(2.5)
        process.kill()
        await asyncio.sleep(5)
        assert seen == ["beat", "beat"]

    simulate(work)


def test_a_frozen_process_goes_on_where_it_was_with_its_clock_ahead() -> None:
    seen: list[float] = []

    async def live() -> None:
        while True:
            await asyncio.sleep(1)
            seen.append(asyncio.get_running_loop().time())

    async def work(loop: VirtualLoop, _network: Network) -> None:
        process = Process(loop, "victim")
        process.spawn(live())
        await asyncio.sleep(1.5)
        process.freeze()
        await asyncio.sleep(3)
        assert len(seen) == 1
        process.thaw()
        await asyncio.sleep(0.1)
        assert seen == pytest.approx([1.0, 4.5], abs=1e-3)

    simulate(work)


def test_each_process_has_a_clock_of_its_own() -> None:
    async def elapsed() -> float:
        started_s = asyncio.get_running_loop().time()
        await asyncio.sleep(10)
        return asyncio.get_running_loop().time() - started_s

    async def work(loop: VirtualLoop, _network: Network) -> None:
        process = Process(loop, "quick", rate=1.25)
        assert await process.spawn(elapsed()) == pytest.approx(10, abs=1e-3)
        assert loop.now_s == pytest.approx(8, abs=1e-3)

    simulate(work)


def test_calls_on_the_writer_thread_end_in_their_order() -> None:
    seen: list[int] = []

    async def write(loop: VirtualLoop) -> None:
        await asyncio.gather(*(loop.run_in_executor(None, seen.append, number) for number in range(9)))

    async def work(loop: VirtualLoop, _network: Network) -> None:
        process = Process(loop, "writer")
        process.call_delay_s = lambda: Random(len(seen)).uniform(0, 1)
        await process.spawn(write(loop))
        assert seen == list(range(9))

    simulate(work)


class Echo(asyncio.Protocol):
    """Records its calls; answers nothing."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.lost: list[Exception | None] = []

    def data_received(self, data: bytes) -> None:
        """Keep it."""
        self.heard.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Keep why."""
        self.lost.append(exc)


class ProcessPair:
    """Two processes with a stream between them."""

    def __init__(self, loop: VirtualLoop, network: Network) -> None:
        self.server, self.client = Process(loop, "server"), Process(loop, "client")
        network.place(self.server, "S")
        network.place(self.client, "C")
        self.far, self.near = Echo(), Echo()
        self._network = network

    async def connect(self) -> asyncio.WriteTransport:
        """Open the stream and return the client's end."""
        self.server.context.run(self._network.listen, lambda: self.far, "S", 1)
        transport, _ = await self.client.spawn(self._network.dial(lambda: self.near, "S", 1))
        assert isinstance(transport, asyncio.WriteTransport)
        return transport


def test_a_cut_delays_a_stream_and_loses_nothing() -> None:
    async def work(loop: VirtualLoop, network: Network) -> None:
        pair = ProcessPair(loop, network)
        stream = await pair.connect()
        network.cut.add(("C", "S"))
        for number in range(3):
            stream.write(bytes([number]))
        await asyncio.sleep(STALL_S / 2)
        assert pair.far.heard == []
        network.heal()
        await asyncio.sleep(1)
        assert pair.far.heard == [b"\0", b"\1", b"\2"]

    simulate(work)


def test_a_stream_that_is_stalled_for_long_ends_at_its_sender() -> None:
    async def work(loop: VirtualLoop, network: Network) -> None:
        pair = ProcessPair(loop, network)
        stream = await pair.connect()
        network.cut.add(("C", "S"))
        stream.write(b"x")
        await asyncio.sleep(STALL_S + 1)
        assert len(pair.near.lost) == 1
        assert pair.far.lost == []

    simulate(work)


def test_a_killed_process_resets_its_streams_and_a_dark_host_says_nothing() -> None:
    async def work(loop: VirtualLoop, network: Network) -> None:
        killed, dark = ProcessPair(loop, network), ProcessPair(loop, network)
        await killed.connect()
        await dark.connect()
        killed.server.kill()
        await asyncio.sleep(1)
        assert isinstance(killed.near.lost[0], ConnectionResetError)
        network.darken("S")
        dark.server.kill()
        await asyncio.sleep(2)
        assert dark.near.lost == []
        network.host_is_back("S")
        await asyncio.sleep(1)
        assert len(dark.near.lost) == 1

    simulate(work)


def test_a_dial_through_a_cut_hangs_and_one_to_nobody_is_refused() -> None:
    async def dial(network: Network) -> None:
        async with asyncio.timeout(2):
            await network.dial(Echo, "S", 9)

    async def work(loop: VirtualLoop, network: Network) -> None:
        pair = ProcessPair(loop, network)
        with pytest.raises(ConnectionRefusedError):
            await pair.client.spawn(dial(network))
        network.cut.add(("S", "C"))
        with pytest.raises(TimeoutError):
            await pair.client.spawn(dial(network))

    simulate(work)
