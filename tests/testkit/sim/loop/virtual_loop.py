"""An asyncio loop whose time jumps from event to event, with processes to kill, freeze and slow.

Code written for asyncio runs here unchanged, in one thread, in an order that depends on nothing but what it
does: no kernel, no threads, no real clock. So one seed gives one run.

A `Process` is what a machine's process is to the code in it. Everything scheduled from inside a process
belongs to it (by a context variable, which tasks inherit), and:

    killed      none of its callbacks runs any more; its `finally` blocks do not run either, as after SIGKILL
    frozen      its callbacks wait, in order, until it is thawed; time goes on (SIGSTOP)
    clock       `loop.time()` inside it is its own monotonic clock, which may run
                faster or slower than the others'
    disk        `run_in_executor` becomes a call at a later time, as slow as the process's disk is set to be

Never here: randomness. A caller that needs chance draws it and passes the result.
"""

import asyncio
import heapq
import warnings
from asyncio.events import AbstractEventLoop
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any

_RESOLUTION_S = 1e-9
_LATENESS_S = 1e-7
"""How late a process's timers are. Why not zero: whoever rounds a time down to ticks would find
itself too early for ever."""


class NothingScheduledError(RuntimeError):
    """The loop waits for something that can never happen."""


class Process:
    """A process on a `VirtualLoop`.

    Attributes:
        name: for traces.
        alive: False once it was killed.
        rate: seconds of its monotonic clock a second of the loop.
        utc_offset_s: how wrong its wall clock is.
        call_delay_s: how long the next call on its writer thread takes.
        writer_free_s: when the calls given to that thread so far will be done.
        parked: how many callbacks a freeze made wait.
        thawed_s: when the last freeze ended.
        on_killed: called once when it dies, before anything else learns of it.
        on_call_failed: looks at what such a call raised; True if that is the end of the process.
    """

    def __init__(self, loop: "VirtualLoop", name: str, rate: float = 1.0) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.thawed_s = -1.0
        self.rate = rate
        self.utc_offset_s = 0.0
        self.call_delay_s: Callable[[], float] = lambda: 0.0
        self.writer_free_s = 0.0
        self.on_killed: list[Callable[[], None]] = []
        self.on_call_failed: Callable[[BaseException], bool] = lambda _error: False
        self.loop = loop
        loop.processes.append(self)
        self.parked = 0
        self._parked: list[asyncio.Handle] = []
        self.context: Context = copy_context()
        self.context.run(_current.set, self)

    def local_s(self, global_s: float) -> float:
        """Return what its monotonic clock shows at a time of the loop."""
        return global_s * self.rate

    def global_s(self, local_s: float) -> float:
        """Return the loop's time at which its monotonic clock shows this."""
        return local_s / self.rate

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start a task in it."""
        return self.loop.create_task(work, context=self.context.copy())

    def kill(self) -> None:
        """End it at once."""
        if self.alive:
            self.alive = False
            self._parked.clear()
            for callback in self.on_killed:
                callback()

    def freeze(self) -> None:
        """Stop running it until `thaw`."""
        self.frozen = True

    def thaw(self) -> None:
        """Run the callbacks that became due, in order."""
        if self.frozen:
            self.thawed_s = self.loop.now_s
        self.frozen = False
        parked, self._parked = self._parked, []
        self.loop.requeue(parked)

    def admits(self, handle: asyncio.Handle) -> bool:
        """Say whether a due callback of it may run now; keep it for later if it is frozen."""
        if self.frozen and self.alive:
            self.parked += 1
            self._parked.append(handle)
        return self.alive and not self.frozen


_current: ContextVar[Process | None] = ContextVar("simulated_process", default=None)


def current_process() -> Process | None:
    """Return the process whose code runs now, None outside of all."""
    return _current.get()


class _Handle(asyncio.Handle):
    __slots__ = ("process",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: AbstractEventLoop,
        context: Context | None,
    ) -> None:
        super().__init__(callback, args, loop, context)
        self.process = _current.get() if context is None else context.get(_current)

    def _run(self) -> None:
        if self.process is None or self.process.admits(self):
            super()._run()


class _Timer(asyncio.TimerHandle):
    __slots__ = ("process",)

    def __init__(
        self,
        when_s: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: AbstractEventLoop,
        context: Context | None,
    ) -> None:
        super().__init__(when_s, callback, args, loop, context)
        self.process = _current.get() if context is None else context.get(_current)

    def _run(self) -> None:
        if self.process is None or self.process.admits(self):
            super()._run()


class _Jump:
    """Stands where a loop asks its selector to wait: time jumps instead."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout_s: float | None) -> list[object]:
        if timeout_s is None:
            raise NothingScheduledError("nothing is scheduled and nothing can come from outside")
        if timeout_s > 0:
            self._loop.jump()
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """A loop with simulated time; its network is put in by `simulated_network`.

    Attributes:
        network: dials and listens for the code on this loop.
        processes: all that ever were.
        errors: reports of exceptions that no code handled, as asyncio describes them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Jump(self)
        self._clock_resolution = _RESOLUTION_S
        self._now_s = 0.0
        self._tasks: list[asyncio.Task[Any]] = []
        self.network: Any = None
        self.processes: list[Process] = []
        self.errors: list[dict[str, Any]] = []
        self.set_task_factory(self._make_task)  # type: ignore[arg-type] # one signature less general than the stub's
        self.set_exception_handler(lambda _loop, context: self.errors.append(context))

    # -- time

    def time(self) -> float:
        """Return the monotonic clock of the calling process, seconds."""
        process = _current.get()
        return self._now_s if process is None else process.local_s(self._now_s)

    @property
    def now_s(self) -> float:
        """The one true time, which no simulated process knows."""
        return self._now_s

    def jump(self) -> None:
        """Go to the next timer; called when nothing is ready."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined] # of the base class
        self._now_s = max(self._now_s, scheduled[0].when())

    def call_soon(  # type: ignore[override] # the stub's variadic types cannot be repeated here
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback of the process that calls."""
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined] # of the base class
        return handle

    def call_at(  # type: ignore[override] # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a callback at a time of the calling process's own clock."""
        process = _current.get() if context is None else context.get(_current)
        when_s = when if process is None else process.global_s(when) + _LATENESS_S
        return self._timer(when_s, callback, args, context)

    def call_in(
        self, process: Process | None, delay_s: float, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Schedule a callback of `process` (None: of no process) after a delay of true time."""
        context = _NOBODY if process is None else process.context
        return self._timer(self._now_s + delay_s, callback, args, context)

    def requeue(self, handles: list[asyncio.Handle]) -> None:
        """Take back callbacks that a frozen process kept."""
        self._ready.extend(handles)  # type: ignore[attr-defined] # of the base class

    def _timer(
        self, when_s: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when_s, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined] # of the base class
        timer._scheduled = True  # type: ignore[attr-defined] # what the base class does for cancelled timers
        return timer

    # -- threads and sockets

    def run_in_executor(  # type: ignore[override] # no executor is used
        self, _executor: object, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Call `func` as late as the process's disk is slow, in one step."""
        future: asyncio.Future[Any] = self.create_future()
        process = _current.get()
        delay_s = 0.0
        if process is not None:  # one writer thread: its calls end in their order
            process.writer_free_s = max(process.writer_free_s, self._now_s) + process.call_delay_s()
            delay_s = process.writer_free_s - self._now_s
        self.call_in(process, delay_s, self._call, process, future, func, args)
        return future

    @staticmethod
    def _call(
        process: Process | None,
        future: "asyncio.Future[Any]",
        func: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        try:
            result = func(*args)
        except BaseException as error:
            if process is not None and process.on_call_failed(error):
                return
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)

    async def create_connection(  # type: ignore[override] # only what the code under test uses
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int, **_options: object
    ) -> tuple[Any, Any]:
        """Dial over the simulated network."""
        return await self.network.dial(protocol_factory, host, port)  # type: ignore[no-any-return] # Any by design

    async def create_server(  # type: ignore[override] # only what the code under test uses
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        host: str | Sequence[str],
        port: int,
        **_options: object,
    ) -> Any:
        """Listen on the simulated network, where a process has one host.

        Raises:
            ValueError: it shall listen at several.
        """
        (at,) = [host] if isinstance(host, str) else host
        return self.network.listen(protocol_factory, at, port)

    # -- tasks

    def _make_task(
        self, _loop: AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=self, **options)
        self._tasks.append(task)
        return task

    def _process_events(self, _events: list[object]) -> None:
        """Nothing comes from outside."""

    def _write_to_self(self) -> None:
        """Nobody is asleep."""

    def bury(self) -> None:
        """End what still runs, silently: most of it belongs to processes that are dead."""
        self.set_exception_handler(lambda _loop, _context: None)
        for process in self.processes:
            process.alive = False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of coroutines that were never awaited
            for task in self._tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined] # they die with their processes
                    with suppress(Exception):
                        task.get_coro().close()
        self._tasks.clear()
        self._ready.clear()  # type: ignore[attr-defined] # of the base class
        self._scheduled.clear()  # type: ignore[attr-defined] # of the base class


_NOBODY = Context()


@contextmanager
def virtual_loop() -> Generator[VirtualLoop, None, None]:
    """Give a loop for one run and clean up after it."""
    loop = VirtualLoop()
    try:
        yield loop
    finally:
        loop.bury()
        loop.close()
