"""Compares what a broker and its master know besides the log, and gives a new master back what it lacks.

`metadata_comparison` decides which entries are lacking, after which grace that counts, and which requests
restore them. This module decides whom to ask, and when. Without a master nothing is compared; with another
master the comparison begins again. A master has no other to be compared with: after its entries were
restored, those that it refused stay missing until it has them.

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
from ha_sidecar.common import metadata
from ha_sidecar.common.events import EventLog
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts, other_master
from ha_sidecar.decisions.metadata_comparison import MetadataComparison, PutBack, is_of_topics, put_back

COMPARE_S: Final = 5.0
"""Between two comparisons."""
SYSTEM_TOPIC: Final = "system topic"
"""A broker's refusal of a topic of its own: the broker makes that topic itself where it needs it."""

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
        self._guard: Final = MetadataComparison()
        self._own: Final = Asker(config.broker, config.credentials)
        self._master: Asker | None = None

    def missing(self) -> Mapping[str, list[str]] | None:
        """Return the names that the broker has lacked for long, by file.

        None while nothing was compared, or it is gone.
        """
        return None if self._broker() is None else self._guard.missing(_now_ms())

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
        if broker is None:
            return  # what it lacks it lacks, however late it answers
        if broker.is_master:
            await self._look_at_master()
            return
        address = other_master(broker, self._group())
        known_address = None if self._master is None else self._master.address
        if address is None or address != known_address:
            self._guard.forget()
            self._follow(None if address is None else Asker(address, self._config.credentials))
        if self._master is not None:
            slave, master = await metadata.fetch(self._own), await metadata.fetch(self._master)
            self._guard.take_comparison(slave, master, _now_ms())

    async def _look_at_master(self) -> None:
        if self._master is not None:
            self._guard.forget()
            self._follow(None)
        if self._config.metadata_put_back and self._guard.good:
            await self._put_back()
        elif self._guard.missing(_now_ms()):
            self._guard.has(await metadata.fetch(self._own))

    def _follow(self, master: Asker | None) -> None:
        if self._master is not None:
            self._master.close()
        self._master = master

    async def _put_back(self) -> None:
        """Give a new master the topics, groups and offsets that the last one had and it lacks.

        Once for each change of role.
        """
        done: dict[str, None] = {}  # an offset is a request for each queue, and named once
        refused: list[PutBack] = []
        own_topics: set[str] = set()
        try:
            for request in put_back(await metadata.fetch(self._own), self._guard.good):
                problem = await self._put_one_back(request)
                if not problem:
                    done[f"{request.file_name}:{request.name}"] = None
                elif SYSTEM_TOPIC in problem:
                    own_topics.add(request.name)
                else:
                    refused.append(request)
        except AskError as error:
            _log.warning("putting metadata back: %s", error)
            return
        self._guard.put_back((each for each in refused if not is_of_topics(each, own_topics)), _now_ms())
        if done:
            _log.warning("the new master lacked %s; put back", ", ".join(done))
            group = self._group()
            epoch = None if group is None else group.master_epoch
            self._events.add("MetadataPutBack", epoch, {"names": ",".join(done)})

    async def _put_one_back(self, request: PutBack) -> str:
        """Return why the broker did not take it, empty if it did.

        A refusal of one keeps no other from being put back.
        """
        try:
            await self._own.ask(request.code, request.header, request.body)
        except AskError as error:
            if error.code is None:
                raise
            _log.warning("putting back %s %s: %s", request.file_name, request.name, error)
            return str(error)
        return ""


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
