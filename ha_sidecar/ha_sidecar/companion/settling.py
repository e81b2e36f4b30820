"""The command `handover`: hand the mastership over, then put the POP checkpoints back that are owed.

    a companion runs       it knows the debt: ask it to settle (`POST /v1/settle`)
    no companion runs      take its folder, look at the broker before and after the handover, settle from here

The lock of the folder tells which. Two processes that settle one debt would send each checkpoint twice.
Without `state` and `broker-metrics` the command does not know of a debt, and only hands over.
"""

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import Final

import aiohttp

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.http_answers import read_json
from controller_core.error_text import error_text
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.address import HostPort
from ha_sidecar.common.controllers import Controllers
from ha_sidecar.common.events import EventLog
from ha_sidecar.common.questions import ask_broker, ask_group_until_answered
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.debt_store import DebtStore, debt_store
from ha_sidecar.companion.handover import LOOK_AGAIN_S, Handover, HandoverResult
from ha_sidecar.companion.revive_watch import SETTLE_WITHIN_S, ReviveWatch
from ha_sidecar.decisions.broker_facts import BrokerFacts, GroupFacts

FACTS_WITHIN_S: Final = 3.0
"""Limit for the questions about broker and group on each side of the handover."""
_ANSWER_WITHIN_S: Final = SETTLE_WITHIN_S + 2.0

_log = logging.getLogger(__name__)


async def hand_over_and_settle(config: CompanionConfig) -> HandoverResult:
    """Hand over, then put owed checkpoints back, or have the companion do it.

    Raises:
        HandoverError: not handed over within the deadline; the debt stays in the folder.
    """
    store = debt_store(config)
    if store is None or config.broker_metrics is None:
        return await Handover(config).run()
    try:
        is_ours = await asyncio.to_thread(store.take)
    except OSError as error:
        _log.error("the handover does not settle POP checkpoints: %s", error)
        return await Handover(config).run()
    if is_ours:
        return await _Settler(config, config.broker_metrics, store).run()
    result = await Handover(config).run()
    return replace(result, pop_revives_owed=await _settled_by_companion(config.http))


async def _settled_by_companion(http: HostPort | None) -> bool | None:
    """Have the running companion settle; return whether it still owes, None if it does not say."""
    if http is None:
        return None
    timeout = aiohttp.ClientTimeout(total=_ANSWER_WITHIN_S)
    url = f"http://127.0.0.1:{http[1]}/v1/settle"
    try:
        # Its own pod: a companion takes commands from loopback only.
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(url, raise_for_status=True, allow_redirects=False) as answer,
        ):
            owed = (await read_json(answer)).get("pop_revives_owed")
    except (aiohttp.ClientError, TimeoutError, ValueError, AttributeError) as error:
        _log.warning("the companion does not say whether it owes POP checkpoints: %s", error_text(error))
        return None
    return owed if isinstance(owed, bool) else None


class _Settler:
    """Looks at the broker in place of a companion, before and after the handover."""

    def __init__(self, config: CompanionConfig, page: HostPort, store: DebtStore) -> None:
        self._config: Final = config
        self._own: Final = Asker(config.broker, config.credentials)
        self._broker: BrokerFacts | None = None
        self._group: GroupFacts | None = None
        events = EventLog(config.cluster, config.group, config.namespace, "handover")
        self._watch: Final = ReviveWatch(
            config, page, events, lambda: self._broker, lambda: self._group, store
        )

    async def run(self) -> HandoverResult:
        """Hand over, see to the debts that it leaves, and return the result of the handover."""
        try:
            await self._learn()
            await self._watch.look()
            result = await Handover(self._config).run()
            await self._learn()
            await self._watch.settle()
            return replace(result, pop_revives_owed=self._watch.is_owed)
        finally:
            self._watch.close()
            self._own.close()

    async def _learn(self) -> None:
        """Ask broker and controllers; the state of one that is silent stays unknown."""
        controllers = Controllers(self._config.controllers)
        controllers.start()
        self._broker = self._group = None
        try:
            async with asyncio.timeout(FACTS_WITHIN_S):
                with contextlib.suppress(AskError, RemotingProtocolError):
                    self._broker = await ask_broker(self._own)
                self._group = await ask_group_until_answered(
                    controllers,
                    self._config.cluster,
                    self._config.group,
                    _note_silence,
                    pause_s=LOOK_AGAIN_S,
                )
        except TimeoutError:
            _log.warning("the controllers do not name the master: POP checkpoints may stay owed")
        finally:
            await controllers.stop()


def _note_silence(error: Exception) -> None:
    _log.debug("controllers: %s", error)
