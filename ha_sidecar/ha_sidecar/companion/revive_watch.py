"""Send the checkpoints of POP consumers again that a master could not revive while it refused writes.

A master that refuses writes (too few copies, a write guard, a fence) refuses its own puts, too. It reads a
due checkpoint, fails to put the messages into the retry topic, fails to write a new checkpoint, and commits
its offset. Without help these messages never come again. `revive_debt` finds them by the broker's counters
and offsets; this module asks the brokers.

Resetting the offset does not help: the broker continues after the greater of the committed offset and its own
memory. So the companion sends the checkpoints to the revive topic of the current master, without the
acknowledged messages. The broker revives them in its next turn.

A broker that has never revived a message lacks offsets of its revive queues. The watch does not read its
counters then: for that page a JVM that has just become master needs more than 100 ms of CPU.

A debt outlives this process in the companion's folder (`debt_store`). A companion without a debt that starts
after the refusals does not know of them. Events: PopRevived.

Source: PopReviveService.java, ConsumerManageProcessor.queryConsumerOffset, SendMessageProcessor.java (5.2.0
to 5.5.0).
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import aiohttp

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.http_answers import read_body
from controller_core.error_text import error_text
from controller_core.remoting.client_headers import (
    GetOffsetRequestHeader,
    GetOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.host_port import join_host_port
from ha_sidecar.address import HostPort
from ha_sidecar.common.events import EventLog
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.debt_store import DebtStore
from ha_sidecar.decisions import revive_log
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts, master_process_address, settings
from ha_sidecar.decisions.revive_debt import DebtRecord, OwedCheckpoints, ReviveDebt
from ha_sidecar.decisions.revive_log import Consumer, ReviveLogEntry
from ha_sidecar.decisions.revive_record import DebtRecordError

LOOK_S: Final = 2.0
"""Between two looks. Messages that the broker revived within this time before a refusal may come twice."""
SETTLE_LOOK_S: Final = 0.2
SETTLE_WITHIN_S: Final = 3.0
"""Limit for a handover: the pod will end after it."""
PAGE_TIMEOUT_S: Final = 2.0
PAGE_BYTES_MAX: Final = 8 << 20
"""Of a broker's metrics; a page of a thousand topics has less than 1 MiB."""
CHECKPOINTS_MAX: Final = 10_000
"""Messages of a revive queue that are searched for checkpoints at once."""
ACKS_AFTER_MAX: Final = 20_000
"""Messages after them that are searched for acknowledgements."""
_QUEUES_KEY: Final = "reviveQueueNum"
_STORED: Final = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
)


class OtherProcessError(Exception):
    """Another process holds the companion's folder."""


_TROUBLE: Final = (
    OtherProcessError,
    AskError,
    RemotingProtocolError,
    aiohttp.ClientError,
    TimeoutError,
    ValueError,
)
"""ValueError: undecodable messages, a metrics line that is too long, an invalid `reviveQueueNum`."""

_log = logging.getLogger(__name__)


class ReviveWatch:
    """Watches the revives of one broker; event loop's thread only.

    Attributes:
        put_back: number of checkpoints put back so far.
    """

    def __init__(
        self,
        config: CompanionConfig,
        page: HostPort,
        events: EventLog,
        broker: Callable[[], BrokerFacts | None],
        group: Callable[[], GroupFacts | None],
        store: DebtStore | None = None,
    ) -> None:
        """Do not connect yet.

        Args:
            config: the companion's settings.
            page: address of the broker's metrics.
            events: the companion's events.
            broker: returns the newest facts about the broker.
            group: returns the newest facts about its group.
            store: where a debt outlives this process; None: in memory only.
        """
        self.put_back = 0
        self._config: Final = config
        self._page: Final = f"http://{join_host_port(*page)}/metrics"
        self._events: Final = events
        self._broker: Final = broker
        self._group: Final = group
        self._topic: Final = revive_log.topic(config.cluster)
        self._debt: Final = ReviveDebt()
        self._store: Final = store
        self._saved: DebtRecord | None = None
        self._is_resumed = store is None
        self._continues = False
        self._save_trouble = ""
        self._sign: Final = config.credentials
        self._own: Final = Asker(config.broker, self._sign)
        self._queues = 0
        self._is_followed = False
        self._trouble = ""
        self._turn: Final = asyncio.Lock()
        self._turns: Final[set[asyncio.Future[None]]] = set()

    @property
    def refused(self) -> int:
        """Number of messages that the broker refused to revive."""
        return self._debt.refused

    @property
    def is_owed(self) -> bool:
        """Whether checkpoints wait to be put back."""
        return self._debt.is_open

    async def run(self) -> None:
        """Look and put back until cancelled."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(LOOK_S)
        finally:
            self.close()

    def close(self) -> None:
        """Cancel running rounds; release folder and connection."""
        for turn in self._turns:
            turn.cancel()
        self._own.close()
        if self._store is not None:
            self._store.release()

    async def settle(self) -> None:
        """Put owed checkpoints back before this process ends; give up after `SETTLE_WITHIN_S`.

        A round that has begun goes on after that. If it were cancelled during a send, the broker might have
        stored the checkpoint, and the next round would send it again.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + SETTLE_WITHIN_S
        while True:
            turn = asyncio.ensure_future(self.look())
            self._turns.add(turn)
            turn.add_done_callback(self._turns.discard)
            done, _ = await asyncio.wait([turn], timeout=max(0.0, until_s - loop.time()))
            if not done:
                return
            turn.result()
            if (self._is_resumed and not self._debt.is_open) or loop.time() >= until_s:
                return
            await asyncio.sleep(SETTLE_LOOK_S)

    async def look(self) -> None:
        """Look once at the broker, and put owed checkpoints back if the group's master takes them."""
        async with self._turn:
            try:
                await self._resume()
                is_quiet = await self._look()
                await self._save()
                if is_quiet and self._debt.is_open:
                    await self._put_back()
            except _TROUBLE as error:
                # Log a lasting problem once, not every two seconds.
                if error_text(error) != self._trouble:
                    _log.warning(
                        "checkpoints of POP consumers cannot be checked or put back yet: %s",
                        error_text(error),
                    )
                self._trouble = error_text(error)
            else:
                self._trouble = ""

    async def _look(self) -> bool:
        """Look at a master, and once more after it stepped down.

        Return whether it refused nothing since the last look.
        """
        broker = self._broker()
        is_master = broker is not None and broker.is_master
        if not is_master and not self._is_followed:
            # Offsets of a slave come from its master. Its next look as a master is a first one.
            self._continues = self._continues and broker is None
            return True
        if not self._is_followed:
            answer = await self._own.ask(RequestCode.GET_BROKER_CONFIG)
            self._queues = int(settings(answer.body.decode(errors="replace")).get(_QUEUES_KEY, "0"))
            if not self._continues:
                self._debt.begin()
        offsets = await self._offsets()
        was_quiet = self._debt.look(offsets, await self._refusals() if offsets else {})
        self._is_followed, self._continues = is_master, False
        return was_quiet

    # The debt on disk.

    async def _resume(self) -> None:
        """Take the debt of an earlier process over, once.

        Raises:
            OtherProcessError: a process that watches this broker still runs.
        """
        if self._store is None or self._is_resumed:
            return
        try:
            if not await asyncio.to_thread(self._store.take):
                raise OtherProcessError(f"{self._store.directory} is in use by another process")
            record = await asyncio.to_thread(self._store.read)
        except OSError as error:
            _log.error("POP checkpoints owed before the restart are unknown: %s", error)
            record = None
        self._is_resumed = True
        if record is not None:
            self._debt.resume(record)
            self._saved, self._continues = record, True
            owed = sum(each.through - each.after for each in self._debt.owed())
            _log.warning("POP checkpoints are owed since before the restart: %d messages to read", owed)

    async def _save(self) -> None:
        """Make the debt durable if it changed; after an error the next look tries again."""
        record = self._debt.record()
        if self._store is None or record == self._saved:
            return
        try:
            await asyncio.to_thread(self._store.write, record)
        except (OSError, DebtRecordError) as error:
            if str(error) != self._save_trouble:
                _log.error("owed POP checkpoints are kept in memory only: %s", error)
            self._save_trouble = str(error)
        else:
            self._saved, self._save_trouble = record, ""

    async def _offsets(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for queue in range(self._queues):
            header = QueryConsumerOffsetRequestHeader(
                revive_log.REVIVE_GROUP, self._topic, queue, set_zero_if_not_found=False
            )
            try:
                answer = await self._own.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
            except AskError as error:
                if error.code is None:
                    raise
                continue
            found[queue] = GetOffsetResponseHeader.from_ext(answer.ext).offset
        return found

    async def _refusals(self) -> dict[Consumer, int]:
        timeout = aiohttp.ClientTimeout(total=PAGE_TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(self._page, raise_for_status=True, allow_redirects=False) as answer,
        ):
            text = (await read_body(answer, PAGE_BYTES_MAX)).decode(errors="replace")
            return revive_log.refusals(text.splitlines())

    # Putting back.

    async def _put_back(self) -> None:
        group = self._group()
        address = None if group is None else master_process_address(group)
        if group is None or address is None:
            return
        before, refused = self.put_back, self._debt.refused
        master = Asker(address, self._sign)
        try:
            for owed in self._debt.owed():
                await self._put_back_queue(master, owed)
            self._debt.settle()
        finally:
            master.close()
            await self._save()
            if self.put_back > before:
                count = self.put_back - before
                _log.warning("put back %d checkpoints of POP consumers after refused writes", count)
                attrs = {"checkpoints": str(count), "refused": str(refused)}
                self._events.add("PopRevived", group.master_epoch, attrs)

    async def _put_back_queue(self, master: Asker, owed: OwedCheckpoints) -> None:
        after = max(owed.after, await self._least(master, owed.queue) - 1)
        while after < owed.through:
            through = min(owed.through, after + CHECKPOINTS_MAX)
            found = await self._read(master, owed.queue, after + 1, through + ACKS_AFTER_MAX)
            for checkpoint in revive_log.owed(found, through, owed.consumers, self._config.group):
                await self._send(master, owed.queue, checkpoint)
                self._debt.mark_put_back(owed.queue, checkpoint.offset)
                self.put_back += 1
            self._debt.mark_put_back(owed.queue, through)
            await self._save()
            after = through

    async def _least(self, master: Asker, queue: int) -> int:
        answer = await master.ask(RequestCode.GET_MIN_OFFSET, GetOffsetRequestHeader(self._topic, queue))
        return GetOffsetResponseHeader.from_ext(answer.ext).offset

    async def _read(self, master: Asker, queue: int, offset: int, through: int) -> list[ReviveLogEntry]:
        """Return a queue's messages between two offsets, as far as they exist."""
        found: list[ReviveLogEntry] = []
        while offset <= through:
            try:
                answer = await master.ask(
                    RequestCode.PULL_MESSAGE, revive_log.pull(self._topic, queue, offset)
                )
            except AskError as error:
                if error.code != ResponseCode.PULL_NOT_FOUND:
                    raise
                break
            read = revive_log.entries(answer.body)
            if not read:
                break
            found += read
            offset = read[-1].offset + 1
        return found

    async def _send(self, master: Asker, queue: int, checkpoint: ReviveLogEntry) -> None:
        now_ms = time.time_ns() // 1_000_000
        header = revive_log.send(self._topic, queue, checkpoint, self._config.group, now_ms)
        try:
            await master.ask(RequestCode.SEND_MESSAGE_V2, header, checkpoint.body)
        except AskError as error:
            if error.code not in _STORED:
                raise
