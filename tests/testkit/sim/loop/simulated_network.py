"""A network in memory: streams that never reorder, messages that may, and cuts that are silent.

What it may do, and never does otherwise:

    delay       every delivery takes time, drawn for each; a stream keeps its order all the same
    loss        a *message* may be lost or doubled; bytes of a *stream* are only late, as TCP has it
    cut         a directed pair of hosts: messages vanish, streams stall, dials hang. A stream that has been
                stalled for `STALL_S` ends on the sender's side without a word to the other
    death       a killed process resets its streams; a host without power says nothing, and resets those
                that speak to it once it is back

A stream hands over writes unchanged: bytes for RocketMQ's frames, plain objects for modelled brokers.
"""

import asyncio
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from testkit.sim.loop.virtual_loop import Process, VirtualLoop, current_process

DELAY_S_MIN = 0.0002
DELAY_S_MAX = 0.002
RESEND_S_MAX = 0.4
"""How long after a cut heals a stalled stream goes on: the sender's next retransmission."""
STALL_S = 8.0


class Network:
    """Hosts, listeners, streams, and the faults between them.

    Attributes:
        cut: directed pairs of hosts that hear nothing.
        loss, duplication: shares of messages.
        slow_s: added to each delay at most.
        stalled, lost, doubled: what the faults did, to be counted.
    """

    def __init__(self, loop: VirtualLoop, random: Random) -> None:
        self.loop = loop
        self.random = random
        self.cut: set[tuple[str, str]] = set()
        self.loss = 0.0
        self.duplication = 0.0
        self.slow_s = 0.0
        self.stalled = self.lost = self.doubled = self.refused = 0
        self._listeners: dict[tuple[str, int], _Listener] = {}
        self._streams: list[_End] = []
        self._host_of: dict[Process, str] = {}
        self._dark: set[str] = set()
        loop.network = self

    def place(self, process: Process, host: str) -> None:
        """Put a process on a host."""
        self._host_of[process] = host
        self._dark.discard(host)
        process.on_killed.append(lambda: self._forget(process))

    def darken(self, host: str) -> None:
        """Take a host's power: what ends there ends silently. Call it before its process is killed."""
        self._dark.add(host)

    def delay_s(self) -> float:
        """Draw how long a delivery takes."""
        return self.random.uniform(DELAY_S_MIN, DELAY_S_MAX) + (
            self.random.uniform(0, self.slow_s) if self.slow_s and self.random.random() < 0.3 else 0.0
        )

    def is_cut(self, source: str, target: str) -> bool:
        """Say whether nothing comes through."""
        return (source, target) in self.cut or target in self._dark

    def heal(self) -> None:
        """Let everything through again."""
        self.cut.clear()
        self.loss = self.duplication = self.slow_s = 0.0
        self.resume()

    def resume(self) -> None:
        """Let stalled streams go on whose way is free."""
        for end in list(self._streams):
            end.resume()

    # -- messages

    def post(self, source: str, target: str, process: Process, deliver: Callable[[], object]) -> bool:
        """Send a message to a process; say whether it is on its way."""
        if self.is_cut(source, target):
            self.lost += 1
            return False
        if self.loss and self.random.random() < self.loss:
            self.lost += 1
            return False
        if self.duplication and self.random.random() < self.duplication:
            self.doubled += 1
            self.loop.call_in(process, self.delay_s() * 3, deliver)
        self.loop.call_in(process, self.delay_s(), deliver)
        return True

    # -- streams

    def listen(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> "_Listener":
        """Accept streams at an address for the calling process."""
        process = _running()
        listener = self._listeners[host, port] = _Listener(self, process, factory, host, port)
        return listener

    def unlisten(self, listener: "_Listener") -> None:
        """Accept no more."""
        if self._listeners.get((listener.host, listener.port)) is listener:
            del self._listeners[listener.host, listener.port]

    async def dial(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple["_End", asyncio.Protocol]:
        """Open a stream to an address; hangs while the way is cut, as a dial without an answer does."""
        process = _running()
        source = self._host_of[process]
        opened: asyncio.Future[None] = self.loop.create_future()
        if self.is_cut(source, host) or self.is_cut(host, source):
            self.stalled += 1
        else:
            self.loop.call_in(process, 2 * self.delay_s(), _resolve, opened)
        await opened
        listener = self._listeners.get((host, port))
        if listener is None or not listener.process.alive:
            self.refused += 1
            raise ConnectionRefusedError(f"no listener at {host}:{port}")
        near, far = _End(self, process, source, host), _End(self, listener.process, host, source)
        near.peer, far.peer = far, near
        self._streams += (near, far)
        protocol = near.protocol = factory()
        # Why made there in a callback: the kernel accepts for a frozen process, which learns of it later.
        self.loop.call_in(listener.process, 0.0, far.accept, listener.factory)
        protocol.connection_made(near)
        return near, protocol

    def drop(self, end: "_End") -> None:
        """Forget a stream's end."""
        if end in self._streams:
            self._streams.remove(end)

    def _forget(self, process: Process) -> None:
        host = self._host_of.pop(process)
        for address in [
            address for address, listener in self._listeners.items() if listener.process is process
        ]:
            del self._listeners[address]
        for end in [end for end in self._streams if end.process is process]:
            end.die(silently=host in self._dark)

    def host_is_back(self, host: str) -> None:
        """Give a host its power again: whoever still speaks to its old streams is reset."""
        self._dark.discard(host)
        for end in list(self._streams):
            if end.target == host and end.peer is not None and not end.peer.process.alive:
                end.peer.die(silently=False)


class _Listener:
    """A listening port, as far as an asyncio server's owner looks at it."""

    def __init__(
        self,
        network: Network,
        process: Process,
        factory: Callable[[], asyncio.Protocol],
        host: str,
        port: int,
    ) -> None:
        self.process = process
        self.factory = factory
        self.host = host
        self.port = port
        self._network = network
        self.sockets: Iterable[object] = ()

    def close(self) -> None:
        """Accept no more."""
        self._network.unlisten(self)

    async def wait_closed(self) -> None:
        """Nothing to wait for."""


class _End(asyncio.Transport):
    """One end of a stream: the transport that its protocol writes to."""

    def __init__(self, network: Network, process: Process, source: str, target: str) -> None:
        super().__init__()
        self.process = process
        self.source = source
        self.target = target
        self.peer: _End | None = None
        self.protocol: asyncio.Protocol | None = None
        self._network = network
        self._waiting: list[tuple[str, Any]] = []
        self._last_arrival_s = 0.0
        self._ended = False
        self._stalled_since_s: float | None = None

    # What the protocol uses.

    def write(self, data: Any) -> None:
        """Send bytes, or between modelled brokers an object."""
        if not self._ended:
            self._put("data", data)

    def close(self) -> None:
        """End it after the pending writes."""
        self._end_here(None, farewell="closed")

    def abort(self) -> None:
        """End it now."""
        self._end_here(None, farewell="reset")

    def is_closing(self) -> bool:
        """Say whether it has ended."""
        return self._ended

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take limits of a buffer that is always empty."""

    def get_write_buffer_size(self) -> int:
        """Nothing of the sender's waits in its own process."""
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the addresses; a simulated server is without sockets."""
        return {"peername": (self.target, 0), "sockname": (self.source, 0)}.get(name, default)

    # What the network uses.

    def accept(self, factory: Callable[[], asyncio.Protocol]) -> None:
        """Give the listener its end."""
        self.protocol = factory()
        self.protocol.connection_made(self)

    def resume(self) -> None:
        """Go on sending if the way is free again."""
        if self._waiting and not self._network.is_cut(self.source, self.target):
            waiting, self._waiting = self._waiting, []
            self._stalled_since_s = None
            pause_s = self._network.random.uniform(0, RESEND_S_MAX)
            for kind, data in waiting:
                self._schedule(kind, data, pause_s)
            self._forget_if_over()

    def die(self, *, silently: bool) -> None:
        """Its process is gone."""
        if not self._ended:
            self._ended = True
            if silently:
                self._waiting.clear()
        elif silently:
            return
        if not silently:
            self._put("reset", None)
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self._ended and not self._waiting:
            self._network.drop(self)

    def _put(self, kind: str, data: Any) -> None:
        if self._waiting or self._network.is_cut(self.source, self.target):
            self._network.stalled += 1
            self._waiting.append((kind, data))
            if self._stalled_since_s is None:
                since_s = self._stalled_since_s = self._network.loop.now_s
                self._network.loop.call_in(self.process, STALL_S, self._give_up, since_s)
        else:
            self._schedule(kind, data, 0.0)

    def _schedule(self, kind: str, data: Any, pause_s: float) -> None:
        loop = self._network.loop
        arrival_s = max(self._last_arrival_s + 1e-9, loop.now_s + pause_s + self._network.delay_s())
        self._last_arrival_s = arrival_s
        peer = self.peer
        if peer is not None:
            loop.call_in(peer.process, arrival_s - loop.now_s, peer.receive, kind, data)

    def _give_up(self, since_s: float) -> None:
        if self._stalled_since_s == since_s and not self._ended:
            self._end_here(TimeoutError("the stream stalled"), farewell="")

    def receive(self, kind: str, data: Any) -> None:
        """Take what the other end sent."""
        if self._ended:
            if kind == "data":
                self._put("reset", None)  # the process is gone, and a peer that still sends must learn that
            return
        if kind == "data":
            if self.protocol is not None:
                self.protocol.data_received(data)
            return
        error = ConnectionResetError("the peer reset the stream") if kind == "reset" else None
        self._end_here(error, farewell="")

    def _end_here(self, error: Exception | None, farewell: str) -> None:
        if self._ended:
            return
        self._ended = True
        if farewell:
            self._put(farewell, None)
        else:
            self._waiting.clear()
        self._forget_if_over()
        if self.protocol is not None:
            self._network.loop.call_in(self.process, 0.0, self.protocol.connection_lost, error)


def _running() -> Process:
    process = current_process()
    if process is None:
        raise RuntimeError("only a process can use the network")
    return process


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
