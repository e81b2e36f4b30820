"""Tell slaves the address of their master's HA port as soon as it is known.

A Java slave learns that address from the name server's answer to its own registration alone, every
registerNameServerPeriod (30 s, never under 10 s). A broker that becomes slave before the new master is
registered there, or that restarts, does not connect until then, so its group has one copy less for that time.
Request 906 delivers the address at once: without fields it asks a master, with fields it tells a slave.

After each change of master, and whenever a member comes alive, the leader asks and tells, until every living
broker of the group is in its SyncStateSet or the last of the pauses is over; a slave that knows the address
already ignores it. Log replicas ask for themselves.

Never here: the choice of the master. Each round reads it from the applied state.

Source: AdminBrokerProcessor.updateBrokerHaInfo, AutoSwitchHAClient.updateHaMasterAddress,
ReplicasManager.changeToSlave of 5.4.0.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from controller_core.channel.refusals import RefusalLog
from controller_core.groups.group import Group
from controller_core.groups.keys import GroupKey, ReplicaKey
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.headers import ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader
from controller_core.server.common.broker_questions import ASK_ERRORS, Ask, RefusedError, ask_or_raise
from controller_core.server.logs import bind

PAUSES_S: Final = (0.1, 0.1, 0.2, 0.2, 0.4, 0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 2.0, 5.0, 5.0, 5.0, 5.0)
"""Before each round: a broker changes its role within a second or so, and starts within half a minute."""

_log = logging.getLogger(__name__)


class HaAddresses:
    """Looks after groups whose slaves may not know where to connect."""

    def __init__(
        self,
        state: GroupsState,
        ask: Ask,
        *,
        is_alive: Callable[[ReplicaKey], bool],
        leads: Callable[[], bool],
        is_open: Callable[[GroupKey], bool],
    ) -> None:
        self._state = state
        self._ask = ask
        self._is_alive = is_alive
        self._leads = leads
        self._is_open = is_open
        self._refusals = RefusalLog(_log)
        self._tasks: dict[GroupKey, asyncio.Task[None]] = {}

    def look_after(self, key: GroupKey) -> None:
        """Begin the rounds for a group, from the first pause on."""
        running = self._tasks.get(key)
        if running is not None:
            running.cancel()
        task = asyncio.create_task(self._rounds(key))
        self._tasks[key] = task
        task.add_done_callback(partial(self._ended, key))

    async def stop(self) -> None:
        """Stop telling."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: GroupKey, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def _rounds(self, key: GroupKey) -> None:
        for pause_s in PAUSES_S:
            await asyncio.sleep(pause_s)
            group = self._state.get(key)
            if group is None or not self._leads():
                return
            if group.master_address is None or self._is_open(key):
                continue  # Until the old master has stepped down, its slaves must stay connected to it.
            outside = self._outside(group)
            if not outside:
                return
            await self._tell(group.master_address, outside)

    def _outside(self, group: Group) -> list[str]:
        """Return the addresses of the living brokers that are not in the SyncStateSet."""
        return [
            replica.address
            for broker_id, replica in group.replicas.items()
            if replica.electable
            and broker_id not in group.sync_state_set
            and self._is_alive(ReplicaKey(*group.key, broker_id))
        ]

    async def _tell(self, master_address: str, slaves: list[str]) -> None:
        try:
            answer = await ask_or_raise(self._ask, master_address, RequestCode.EXCHANGE_BROKER_HA_INFO)
            told = ExchangeHAInfoResponseHeader.from_ext(answer.ext)
            if not told.master_ha_address:
                return  # It does not act as master yet.
            header = ExchangeHAInfoRequestHeader(
                told.master_ha_address, told.master_flush_offset, told.master_address
            )
        except ASK_ERRORS as error:
            self._failed(master_address, error)
            return
        self._refusals.answered(master_address)
        # Side by side: a slave whose node is gone must not keep the others from their master.
        await asyncio.gather(*(self._tell_one(address, header) for address in slaves))

    async def _tell_one(self, address: str, header: ExchangeHAInfoRequestHeader) -> None:
        try:
            await ask_or_raise(self._ask, address, RequestCode.EXCHANGE_BROKER_HA_INFO, header.to_ext())
        except ASK_ERRORS as error:
            self._failed(address, error)
        else:
            self._refusals.answered(address)

    def _failed(self, address: str, error: Exception) -> None:
        if isinstance(error, RefusedError):
            self._refusals.refused(address, str(error))
        else:
            _log.debug(
                "a slave does not know the HA address of its master yet",
                extra=bind(address=address, error=str(error)),
            )
