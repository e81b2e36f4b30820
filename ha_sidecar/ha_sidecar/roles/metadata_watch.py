"""Compares what a broker and its master know besides the log, and gives a new master back what it lacks.

What is lacking, for how long before it counts, and by which requests it is put back: `metadata_guard`. Here is who is asked,
and when. Without a master, or as master itself, nothing is compared; with another master it begins anew.

Never: puts anything back over something that is there, nor twice after one change of role.

Events: MetadataPutBack.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.roles import metadata
from ha_sidecar.roles.companion_config import CompanionConfig
from ha_sidecar.roles.companion_facts import BrokerFacts, GroupFacts, master_of
from ha_sidecar.roles.events import EventLog
from ha_sidecar.roles.metadata_guard import MetadataGuard, PutBack, put_back

COMPARE_S: Final = 5.0
"""Between two comparisons."""

_log = logging.getLogger(__name__)


class MetadataWatch:
    """Watches one broker's metadata; event loop's thread only."""

    def __init__(
        self,
        config: CompanionConfig,
        events: EventLog,
        broker: Callable[[], BrokerFacts | None],
        group: Callable[[], GroupFacts | None],
    ) -> None:
        """Take the settings, and what tells what broker and controllers said last."""
        self._config: Final = config
        self._events: Final = events
        self._broker: Final = broker
        self._group: Final = group
        self._guard: Final = MetadataGuard()
        self._own: Final = Asker(config.broker)
        self._master: Asker | None = None

    def missing(self) -> Mapping[str, list[str]] | None:
        """Return the names that the broker has lacked for long, by file; None while nothing was compared."""
        return self._guard.missing(_now_ms())

    async def run(self) -> None:
        """Compare and put back until cancelled."""
        try:
            while True:
                try:
                    await self._look()
                except (AskError, RemotingProtocolError) as error:
                    _log.debug("metadata: %s", error)
                await asyncio.sleep(COMPARE_S)
        finally:
            self._own.close()
            self._follow(None)

    async def _look(self) -> None:
        broker = self._broker()
        address = master_of(self._group())
        known_address = None if self._master is None else self._master.address
        if broker is None or broker.is_master or address is None or address != known_address:
            self._guard.forget()
            self._follow(None if address is None else Asker(address))
        if broker is None:
            return
        if broker.is_master:
            if self._config.metadata_put_back:
                await self._put_back()
        elif self._master is not None:
            slave, master = await metadata.fetch(self._own), await metadata.fetch(self._master)
            self._guard.compared(slave, master, _now_ms())

    def _follow(self, master: Asker | None) -> None:
        if self._master is not None:
            self._master.close()
        self._master = master

    async def _put_back(self) -> None:
        """Give a new master the topics, groups and offsets that the last one had and it lacks; once for each change of role."""
        good = self._guard.good
        done: dict[str, None] = {}  # an offset is a request for each queue, and named once
        if not good:
            return
        try:
            for request in put_back(await metadata.fetch(self._own), good):
                if await self._put_one_back(request):
                    done[f"{request.file_name}:{request.name}"] = None
        except AskError as error:
            _log.warning("putting metadata back: %s", error)
            return
        self._guard.good = {}
        if done:
            _log.warning("the new master lacked %s; put back", ", ".join(done))
            group = self._group()
            epoch = None if group is None else group.master_epoch
            self._events.add("MetadataPutBack", epoch, {"names": ",".join(done)})

    async def _put_one_back(self, request: PutBack) -> bool:
        """Say whether the broker took it; a refusal of one keeps no other from being put back."""
        try:
            await self._own.ask(request.code, request.header, request.body)
        except AskError as error:
            if error.code is None:
                raise
            _log.warning("putting back %s %s: %s", request.file_name, request.name, error)
            return False
        return True


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
