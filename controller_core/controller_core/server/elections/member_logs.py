"""Ask the members of a group for their lists of epochs (request 1007) before its first election.

`groups.elections.member_logs` says why heartbeats are not enough. The answers become part of the log entry,
so every node decides by the same ones.

    a list                                       ->  the member is compared by it
    a refusal, a list that cannot be used        ->  compared by its last heartbeat, at once; logged
    silence, or the answer of another member     ->  the election waits for `LISTS_AWAITED_MS` from the first
                                                     request on; then compared by its heartbeat; logged

Why the heartbeat: the epoch that it tells nearly always holds messages. To pass the member over, or to rank
it last, could elect an older log and cut acknowledged messages; to wait without end would leave the group
without a master. What remains is the fault of an empty epoch, and only for a member that does not answer.

Time: a scan asks at most `ASKED_AT_ONCE_MAX` members at once, each for one question's time-out. Size: a list
of more than `LIST_BYTES_MAX` bytes is not read.

Source: AdminBrokerProcessor.getBrokerEpochCache of 5.5.0.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Final

from controller_core.groups.commands import LiveBroker, MemberLog
from controller_core.groups.elections.first_elections import EPOCH_JUMP_MAX
from controller_core.groups.elections.member_logs import log_of_list
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, GroupKey, LogOffset, comma_list
from controller_core.remoting.bodies import EpochEntryCache
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.server.clock import Clock
from controller_core.server.common.broker_questions import ASK_ERRORS, Ask, RefusedError, ask_or_raise
from controller_core.server.logs import bind

LISTS_AWAITED_MS: Final = 10_000
"""How long a due first election waits for the lists of members that do not answer."""
LIST_BYTES_MAX: Final = 1 << 20
"""Bytes of one answer: some 15,000 epochs. RocketMQ's own handshake ends at 1,000."""
ASKED_AT_ONCE_MAX: Final = 16

_log = logging.getLogger(__name__)


class LogUnknownError(Exception):
    """A living member did not tell its list yet; the text names the members."""


class _OtherMemberError(Exception):
    """Another member answered at this address."""


class MemberLogs:
    """Asks for the lists, and remembers since when an election waits for them."""

    def __init__(self, ask: Ask, clock: Clock, forget: Callable[[str], None]) -> None:
        """Take how to ask a broker, and `forget`, which closes the connection to an address."""
        self._ask = ask
        self._clock = clock
        self._forget = forget
        self._since_ms: dict[GroupKey, int] = {}

    def keep(self, due: Collection[GroupKey]) -> None:
        """Forget since when groups that are not due any more wait."""
        self._since_ms = {key: since_ms for key, since_ms in self._since_ms.items() if key in due}

    async def of(self, group: Group, alive: Iterable[LiveBroker]) -> tuple[MemberLog, ...]:
        """Return the logs of the registered members that told a list that can be used, by ascending id.

        Raises:
            LogUnknownError: a member is silent, and the wait for it is not over.
        """
        since_ms = self._since_ms.setdefault(group.key, self._clock.now_ms())
        members = [member.id for member in alive if member.id in group.replicas]
        turns = asyncio.Semaphore(ASKED_AT_ONCE_MAX)
        answers = await asyncio.gather(*(self._answer(group, broker_id, turns) for broker_id in members))
        by_id = dict(zip(members, answers, strict=True))
        silent = {
            broker_id: answer
            for broker_id, answer in by_id.items()
            if isinstance(answer, Exception) and not isinstance(answer, RefusedError | RemotingProtocolError)
        }
        if silent and self._clock.now_ms() - since_ms < LISTS_AWAITED_MS:
            reasons = "; ".join(str(error) for error in silent.values())
            raise LogUnknownError(f"members {comma_list(tuple(silent))} do not tell their epochs: {reasons}")
        for broker_id, answer in by_id.items():
            if isinstance(answer, Exception):
                _log.warning(
                    "a first election compares a member by its heartbeat: it does not tell its epochs",
                    extra=bind(broker_group=str(group.key), id=broker_id, error=str(answer)),
                )
        logs = (answer for answer in by_id.values() if isinstance(answer, MemberLog))
        return tuple(sorted(logs, key=lambda log: log.id))

    async def _answer(
        self, group: Group, broker_id: BrokerId, turns: asyncio.Semaphore
    ) -> MemberLog | Exception:
        address = group.address(broker_id) or ""
        try:
            async with turns:
                answer = await ask_or_raise(self._ask, address, RequestCode.GET_BROKER_EPOCH_CACHE)
            return _usable(group, broker_id, answer.body)
        except _OtherMemberError as error:
            self._forget(address)  # The connection dates from a time when another member used the address.
            return error
        except ASK_ERRORS as error:
            return error


def _usable(group: Group, broker_id: BrokerId, body: bytes) -> MemberLog:
    """Return what an answer says.

    Raises:
        _OtherMemberError: it is not this member's.
        RefusedError: it is too long, or its epochs or offsets cannot be true.
        RemotingProtocolError: it cannot be read.
    """
    if len(body) > LIST_BYTES_MAX:
        raise RefusedError(f"its list has {len(body)} bytes, at most {LIST_BYTES_MAX} are read")
    told = EpochEntryCache.decode(body)
    # A master answers with id 0, a broker that has no role yet with -1.
    is_its_own = told.broker_id <= 0 or told.broker_id == broker_id
    if not is_its_own or (told.cluster_name, told.broker_name) != group.key:
        raise _OtherMemberError(
            f"member {told.broker_id} of {told.cluster_name}/{told.broker_name} answers for {broker_id}"
        )
    starts = ((one.epoch, one.start_offset) for one in told.epoch_list)
    log = log_of_list(broker_id, starts, LogOffset(told.max_offset))
    if log.last_epoch - group.master_epoch > EPOCH_JUMP_MAX or log.max_offset < 0:
        raise RefusedError(f"its last epoch {log.last_epoch} or its end {log.max_offset} cannot be true")
    return log
