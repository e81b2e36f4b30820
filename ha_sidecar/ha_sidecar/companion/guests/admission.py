"""When may guests pass to the broker? Not before it can acknowledge what they send.

The address of a former master leads here from the election on. The broker takes its role some 70 ms later,
and refuses all sends before that: a client would use up its three tries within milliseconds. So guests wait,
while each node's kube-proxy learns of the new way.

    the broker's answer to 907                        guests
    it is not master                                  wait
    it is master, and lacks the copy that a           wait; once one has passed since another was master,
    successor needs (`succession`)                    none waits for a copy any more
    it is master                                      pass
    no connection, or a refusal                       pass: its companion holds them at the broker's port
    none in the time of one question                  wait; the companion asks again, over a new connection
    any, and a guest has waited for `WAIT_S`          that one passes

The companion asks the broker while guests wait, and not otherwise: each question is a new connection to a JVM
that has just become master, while all clients come to it. So one answer that lets guests pass counts for
those of the next `OPEN_FOR_S` too.

Never: asks the controllers. What they said last, before the election or after it, is enough.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.log_rate import LogRate
from controller_core.remoting.bodies import HARuntimeInfo
from controller_core.remoting.errors import RemotingProtocolError
from ha_sidecar.common.questions import ask_ha_status
from ha_sidecar.companion.holding.served_elsewhere import answer_within_s
from ha_sidecar.decisions.broker_facts import GroupFacts
from ha_sidecar.decisions.succession import acknowledges

AGAIN_S: Final = 0.01
OPEN_FOR_S: Final = 0.5
WAIT_S: Final = 1.5
"""Half of what a client gives a send."""

_log_late = LogRate(logging.getLogger(__name__), logging.WARNING)


class Admission:
    """Lets guests pass; for the guests' thread."""

    def __init__(self, asker: Callable[[], Asker], before: Callable[[], GroupFacts | None]) -> None:
        """Take whom to ask.

        Args:
            asker: returns a new way to ask the broker.
            before: returns the group as it was while another member was master; None if unknown.
        """
        self._asker: Final = asker
        self._before: Final = before
        self._passed_epoch: int | None = None
        """Epoch of `before` when guests passed last."""
        self._asking: asyncio.Task[None] | None = None
        self._waiting = 0
        self._open_until_s = 0.0
        self._last: HARuntimeInfo | None = None

    async def passed(self) -> None:
        """Return when a guest that comes now may pass."""
        if time.monotonic() < self._open_until_s and _epoch(self._before()) == self._passed_epoch:
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.ensure_future(self._until_open())
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                await asyncio.shield(self._asking)
        except TimeoutError:
            _log_late(
                "a guest has waited for %.1f s, and the broker cannot acknowledge yet: %s",
                WAIT_S,
                self._reason(),
            )
            self._passed_epoch = _epoch(self._before())
        finally:
            self._waiting -= 1
            if not self._waiting and self._asking is not None:
                self._asking.cancel()
                self._asking = None

    def _reason(self) -> str:
        if self._last is None:
            return "it has not answered"
        return "it lacks a copy" if self._last.master else "it is not master"

    async def _until_open(self) -> None:
        asker, self._last = self._asker(), None
        try:
            while not self._is_open(await _answer(asker)):  # noqa: ASYNC110 - brokers send no notification
                await asyncio.sleep(AGAIN_S)
        finally:
            asker.close()

    def _is_open(self, answer: HARuntimeInfo | None) -> bool:
        self._last = answer
        if answer is None:
            return True
        before = self._before()
        epoch = _epoch(before)
        is_copied = before is None or epoch == self._passed_epoch or acknowledges(answer, before)
        if answer.master and is_copied:
            self._passed_epoch = epoch
            self._open_until_s = time.monotonic() + OPEN_FOR_S
        return answer.master and is_copied


def _epoch(before: GroupFacts | None) -> int | None:
    return None if before is None else before.master_epoch


async def _answer(asker: Asker) -> HARuntimeInfo | None:
    """Ask until an answer comes in time; None for no connection, or a refusal."""
    while True:
        try:
            async with asyncio.timeout(answer_within_s()):
                return await ask_ha_status(asker)
        except TimeoutError:
            asker.close()
        except (AskError, RemotingProtocolError):
            return None
