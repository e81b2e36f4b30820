"""Keep a master's write lease, and answer the guard in the broker's container.

The guard is a part of the broker's start script (`plan.group.scripts.lease_guard` of the operator): process 1
of that container. It asks over loopback, again and again, and stops the broker's processes (SIGSTOP) when the
last answered lease has run out. So nothing here has to act in time. A companion that is dead, frozen or short
of CPU says nothing, and the broker stops.

A question is a line `TIME MARK`: the guard's own clock in hundredths of a second, and the mark of the last
answer, if any. The answer is one of these lines:

| line | meaning |
|---|---|
| `free` | the broker is a slave, without a role, or unknown: it runs |
| `until TIME MARK` | the master may run until this time of the guard's clock; the mark says as what |
| `replaced MARK` | a broker that is stopped ends (SIGKILL): another is master, or it is given up |
| `wait` | nothing new: the last answer still counts |

`until` is the time of the question plus the rest of the lease at the time of the answer. So the clocks of the
two containers need not agree, and an answer that was under way for long grants no more than it should. The
first question of a connection may bring a mark: so a new companion knows that its broker, which does not
answer while it is stopped, was master.

Questions: the companion asks the broker for its role over loopback. It asks a master's controllers for its
lease (1005), each on its own, and for the group's master (1006).

A broker that starts takes itself for the master (907) until the controllers give it a role. It takes no write
before that, and the controllers may still take it for dead. So it is free: its set of replicas in sync, which
comes with the role, is empty.

Source: `decisions.write_lease` for the rule; ReplicasManager.java, AutoSwitchHAService.java (getRuntimeInfo,
`inSyncSlaveNums` is the size of the set less one) 5.5.0.
"""

import asyncio
import contextlib
import logging
import time
from dataclasses import replace
from typing import Final

from controller_core.channel import ChannelError
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.bodies import EpochEntryCache
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.headers import GetMetaDataResponseHeader
from controller_core.remoting.host_port import join_host_port
from controller_core.remoting.numbers import whole_number
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError, controller_answer
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.questions import ask_announced_address, ask_group, ask_ha_status
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.decisions.broker_facts import GroupFacts
from ha_sidecar.decisions.write_lease import MasterMark, WriteLease, read_mark

ROUND_S: Final = 0.05
ROUND_S_MAX: Final = 0.25
QUESTIONS_A_LEASE: Final = 6
"""Questions to each controller while a lease lasts: a lost node ends it after 500 ms, a silent broker
after 1,500 ms by default."""
GROUP_S: Final = 1.0
TIMEOUT_S: Final = 1.0
LOOPBACK: Final = "127.0.0.1"
QUESTION_BYTES_MAX: Final = 256
FREE: Final = "free"
WAIT: Final = "wait"
FIRST_MS: Final = 500
"""Lease of a broker that has just become master, until the controllers answer."""

_log = logging.getLogger(__name__)


class Leasing:
    """One broker's lease.

    Attributes:
        lapses: how often the lease of a master has run out.
    """

    def __init__(self, config: CompanionConfig, controllers: Controllers, events: EventLog) -> None:
        """Take the settings, the connections to the controllers, and where to tell what happens."""
        self.lapses = 0
        self._config: Final = config
        self._controllers: Final = controllers
        self._events: Final = events
        self._broker: Final = Asker(config.broker, config.credentials)
        self._lease: Final = WriteLease(len(config.controllers), config.lease_ms)
        self._address = ""
        self._mark: MasterMark | None = None
        self._end_ms = 0
        self._has_lapsed = False
        self._group: GroupFacts | None = None
        self._group_asked_ms = 0
        self._said: str | tuple[int, MasterMark] = WAIT
        self._id_wanted: Final = asyncio.Event()

    @property
    def word(self) -> str:
        """Say in a word how the lease stands: free, held, wait or replaced."""
        return self._said.partition(" ")[0] if isinstance(self._said, str) else "held"

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            OSError: the port cannot be had.
        """
        addresses = [join_host_port(*one) for one in self._config.controllers]
        server = await asyncio.start_server(
            self._serve, LOOPBACK, self._config.lease_port, limit=QUESTION_BYTES_MAX
        )
        try:
            async with server, asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch_broker())
                tasks.create_task(self._watch_group())
                for address in addresses:
                    tasks.create_task(self._watch_controller(address))
                tasks.create_task(self._tick())
        finally:
            self._broker.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_first = True
        try:
            while question := await reader.readline():
                told_cs, _, mark = question.decode(errors="replace").strip().partition(" ")
                time_cs = whole_number(told_cs)
                if time_cs is None:
                    break
                if is_first:
                    self._connected(read_mark(mark))
                    is_first = False
                writer.write(self._answer(time_cs).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as error:
            _log.debug("the guard: %s", error)
        except asyncio.CancelledError:
            pass  # the process ends; asyncio would print a traceback for each connection
        finally:
            writer.close()

    def _connected(self, mark: MasterMark | None) -> None:
        self._set_mark(mark)
        if mark is not None:
            self._end_ms, self._has_lapsed = _now_ms(), True  # how long it has stood still is unknown
        self._said = self._next(_now_ms())

    def _answer(self, time_cs: int) -> str:
        """Return the answer to a question of this time of the guard's clock."""
        said = self._said
        if isinstance(said, str):
            return said
        end_ms, mark = said
        return f"until {max(0, time_cs + (end_ms - _now_ms()) // 10)} {mark}"

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(ROUND_S)
            self._said = self._next(_now_ms())

    def _next(self, now_ms: int) -> str | tuple[int, MasterMark]:
        """Return the next answer to the guard: a line, or the end of the lease and its mark."""
        mark = self._mark
        if mark is None:
            return FREE
        if now_ms > self._end_ms and not self._has_lapsed:
            self._has_lapsed = True
            self.lapses += 1
            self._tell("LeaseLapsed", "no majority of the controllers with their leader extends the lease")
        if self._is_replaced(mark) or self._lease.is_given_up(now_ms):
            return f"replaced {mark}"
        until_ms = self._lease.until_ms()
        if until_ms is None or until_ms <= now_ms:
            return (self._end_ms, mark) if now_ms <= self._end_ms else WAIT
        if self._has_lapsed:
            if not self._is_confirmed(mark):
                return WAIT
            self._has_lapsed = False
            self._tell("LeaseRegained", "the controllers name this broker as master")
        self._end_ms = until_ms
        return until_ms, mark

    def _is_replaced(self, mark: MasterMark) -> bool:
        group = self._group
        return (
            group is not None
            and group.master_epoch > mark.epoch
            and group.master_id is not None
            and group.master_id != mark.broker_id
            and mark.broker_id != 0
        )

    def _is_confirmed(self, mark: MasterMark) -> bool:
        """Say whether the controllers named this broker after its lease had run out."""
        group = self._group
        return group is not None and self._group_asked_ms > self._end_ms and group.master_id == mark.broker_id

    def _set_mark(self, mark: MasterMark | None) -> None:
        if mark is not None and self._mark is None:
            self._end_ms, self._has_lapsed = _now_ms() + FIRST_MS, False
            if not mark.broker_id:
                self._id_wanted.set()  # a question for the lease names it
        self._mark = mark

    def _tell(self, kind: str, reason: str) -> None:
        _log.warning("%s: %s", kind, reason)
        epoch = None if self._group is None else self._group.master_epoch
        self._events.add(kind, epoch, {"reason": reason})

    # Asking around.

    async def _watch_broker(self) -> None:
        while True:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await self._ask_role()
            except (AskError, RemotingProtocolError, TimeoutError) as error:
                _log.debug("the broker: %s", error)  # whatever it was, it still is: it may be stopped
            await asyncio.sleep(ROUND_S)

    async def _ask_role(self) -> None:
        status = await ask_ha_status(self._broker)
        if not status.master or status.in_sync_slave_nums < 0:
            self._set_mark(None)
            return
        if not self._address:
            self._address = await ask_announced_address(self._broker)
        cache = EpochEntryCache.decode((await self._broker.ask(RequestCode.GET_BROKER_EPOCH_CACHE)).body)
        epoch = max((entry.epoch for entry in cache.epoch_list), default=0)
        self._set_mark(MasterMark(self._own_id(), epoch))

    def _own_id(self) -> int:
        """Return the id by which the controllers know this broker's address; 0 if unknown."""
        if self._mark is not None and self._mark.broker_id:
            return self._mark.broker_id
        others = () if self._group is None else self._group.others
        found = [(alive, broker_id) for broker_id, address, alive in others if address == self._address]
        return max(found)[1] if found else 0

    async def _watch_group(self) -> None:
        while True:
            asked_ms = _now_ms()
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    self._group = await ask_group(self._controllers, self._config.cluster, self._config.group)
                self._group_asked_ms = asked_ms
                if self._mark is not None:
                    # It may have become known while the broker stands still and is not asked.
                    self._mark = replace(self._mark, broker_id=self._own_id())
            except (ControllersUnavailableError, AskError, RemotingProtocolError, TimeoutError) as error:
                _log.debug("controllers: %s", error)
            await self._pause_between_groups()

    async def _pause_between_groups(self) -> None:
        """Wait for the next question about the group."""
        if self._is_urgent():
            await asyncio.sleep(ROUND_S)
        else:
            self._id_wanted.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GROUP_S):
                    await self._id_wanted.wait()

    def _is_urgent(self) -> bool:
        """Say whether the lease waits for the controllers' word on the group."""
        if self._group is None:
            return True
        return self._mark is not None and (self._has_lapsed or not self._mark.broker_id)

    async def _watch_controller(self, address: str) -> None:
        while True:
            if self._mark is not None and self._mark.broker_id:
                await self._ask_lease(address, self._mark)
            left_s = (self._end_ms - _now_ms()) / 1_000
            await asyncio.sleep(min(ROUND_S_MAX, max(ROUND_S, left_s / QUESTIONS_A_LEASE)))

    async def _ask_lease(self, address: str, mark: MasterMark) -> None:
        config = self._config
        ext = {
            "clusterName": config.cluster,
            "brokerName": config.group,
            "brokerId": str(mark.broker_id),
            "leaseBinds": str(config.lease_binds).lower(),
        }
        asked_ms = _now_ms()
        question = RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO, ext)
        try:
            answer = await self._controllers.links.ask_at(address, question, TIMEOUT_S)
            header = GetMetaDataResponseHeader.from_ext(answer.ext)
        except ChannelError:
            closed_s = self._controllers.links.port_closed_for_s(address)
            if closed_s is not None:
                self._lease.port_closed(address, _now_ms() - int(closed_s * 1_000))
        except RemotingProtocolError as error:
            _log.debug("controller %s: %s", address, error)
        else:
            self._lease.answered(address, asked_ms, controller_answer(answer), header.lease_ms)


def _now_ms() -> int:
    """Return a time that goes on while the machine is suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
