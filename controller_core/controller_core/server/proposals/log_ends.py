"""Ask living members where their logs end, before a dead master's successor is elected.

`groups.elections.log_ends` says why heartbeats are not enough, and what the answers allow. The leader asks
each living member for the end of its log (1007), and each broker of the set for its settings (26), all at
once:

    every member answered                            ->  elect
    a broker acknowledges with every member,         ->  the others have `GRACE_S`, because every member has
    some are silent                                      every acknowledged message
    some are silent                                  ->  ask them again until `AWAITED_S`, then elect or
                                                         refuse without them
    a refusal (access control, another program)      ->  not asked again; it would answer the same
    the settings are unknown                         ->  elect by the ends that are known

An election by heartbeats where no settings are known keeps groups available whose brokers refuse requests.

The answers come after the master's death was seen, so nothing that it acknowledged reaches a member later
than the question: a slave acknowledges what it has.

The leader does not repeat an election that failed for the reason that the group records.

Log replicas are not kept in the set (`groups.elections.kept_replicas`) if a broker of it is older than 5.2.0.
A master that begins with a kept member, which has not connected yet, cannot raise its confirm offset. From
5.2.0 on it counts the messages after that offset when it numbers the next ones in their queues
(ConsumeQueueStore.compensateForHA). An older broker does not: the next messages get numbers that are taken,
and no consumer sees them.

Source: AdminBrokerProcessor.getBrokerEpochCache, getBrokerConfig of 5.5.0; AutoSwitchHAService.changeToMaster
and computeConfirmOffset, RemotingCommand.setCmdVersion of 5.1.1 and 5.5.0.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from controller_core.groups.commands import ElectMaster, MemberLog
from controller_core.groups.elections.log_ends import copies_of, fewest_copies, must_ask, with_log_ends
from controller_core.groups.elections.member_logs import log_of_list
from controller_core.groups.elections.policy import is_electable
from controller_core.groups.group import Group
from controller_core.groups.keys import BrokerId, LogOffset, comma_list
from controller_core.groups.state import GroupsState
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.server.common.broker_questions import ASK_ERRORS, Ask, RefusedError, ask_or_raise
from controller_core.server.common.epoch_answers import OtherMemberError, own_epochs
from controller_core.server.logs import bind
from controller_core.server.settings import properties

AWAITED_S: Final = 2.0
"""How long the leader asks silent members again. A broker that asked for the election waits for 3 s."""
GRACE_S: Final = 0.2
PAUSE_S: Final = 0.02
VERSION_V5_2_0: Final = 453
"""MQVersion.Version.V5_2_0.ordinal()."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Answers:
    """What members told so far.

    Attributes:
        logs: of those that told where theirs ends.
        copies: of each broker that told its settings, what its acknowledgement needs.
        versions: of each of them, the ordinal of its MQVersion.
        news: set by each member that is done.
    """

    logs: dict[BrokerId, MemberLog] = field(default_factory=dict)
    copies: dict[BrokerId, int | None] = field(default_factory=dict)
    versions: dict[BrokerId, int] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def all_acknowledge(self) -> bool:
        """Whether a broker says that every member of the set acknowledges, and no broker says otherwise."""
        return bool(self.copies) and all(copies is None for copies in self.copies.values())

    def may_keep(self, brokers: Collection[BrokerId]) -> bool:
        """Return whether log replicas may stay in the set with any of these brokers as the master."""
        new_enough = all(self.versions.get(broker, 0) >= VERSION_V5_2_0 for broker in brokers)
        return self.all_acknowledge and new_enough


class LogEnds:
    """Adds the ends of logs to elections that depend on them."""

    def __init__(self, state: GroupsState, ask: Ask, forget: Callable[[str], None]) -> None:
        """Take the applied groups, how to ask a broker, and `forget`, which closes its connection."""
        self._state = state
        self._ask = ask
        self._forget = forget

    async def before(self, command: ElectMaster, kept: Collection[BrokerId] = ()) -> ElectMaster:
        """Return the election with what living members told; as it is if their answers cannot matter.

        Args:
            command: the election, with the ends of the last heartbeats.
            kept: log replicas that stay in the set, if every member of it acknowledges and no broker is old.
        """
        group = self._state.group_of(command)
        if group is None or not must_ask(group, command):
            return command
        alive = {broker.id for broker in command.alive}
        members = [member for member in group.replicas if member in alive]
        answers = await self._answers(group, members)
        told = with_log_ends(group, command, answers.logs, fewest_copies(answers.copies.values()))
        fields = bind(
            broker_group=str(group.key),
            ends=" ".join(f"{member}:{log.max_offset}" for member, log in sorted(answers.logs.items())),
            silent=comma_list(tuple(member for member in members if member not in answers.logs)),
            withheld=told.withheld,
        )
        _log.log(logging.WARNING if told.withheld else logging.INFO, "members told their logs", extra=fields)
        brokers = [member for member in members if _acknowledges(group, member)]
        return replace(told, kept=tuple(kept)) if answers.may_keep(brokers) else told

    async def _answers(self, group: Group, members: list[BrokerId]) -> _Answers:
        answers = _Answers()
        asking = [asyncio.create_task(self._ask_until_told(group, member, answers)) for member in members]
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        while not all(task.done() for task in asking):
            awaited_s = GRACE_S if answers.all_acknowledge else AWAITED_S
            answers.news.clear()
            try:
                async with asyncio.timeout_at(started_s + awaited_s):
                    await answers.news.wait()
            except TimeoutError:
                break
            await asyncio.sleep(0)  # The task that brought the news ends.
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return answers

    async def _ask_until_told(self, group: Group, member: BrokerId, answers: _Answers) -> None:
        questions = [self._end(group, member, answers)]
        if _acknowledges(group, member):
            questions.append(self._copies(group, member, answers))
        try:
            await asyncio.gather(*questions)
        finally:
            answers.news.set()

    async def _end(self, group: Group, member: BrokerId, answers: _Answers) -> None:
        answer = await self._told(group, member, RequestCode.GET_BROKER_EPOCH_CACHE)
        if answer is None:
            return
        try:
            told = own_epochs(group, member, answer.body)
        except (OtherMemberError, RefusedError, RemotingProtocolError) as error:
            _log.warning(
                "a member does not tell the end of its log",
                extra=bind(broker_group=str(group.key), id=member, error=str(error)),
            )
            self._forget(group.address(member) or "")
            return
        if told.max_offset >= 0:
            starts = ((entry.epoch, entry.start_offset) for entry in told.epoch_list)
            answers.logs[member] = log_of_list(member, starts, LogOffset(told.max_offset))

    async def _copies(self, group: Group, member: BrokerId, answers: _Answers) -> None:
        answer = await self._told(group, member, RequestCode.GET_BROKER_CONFIG)
        if answer is None:
            return
        try:
            settings = properties.parse(answer.body.decode(errors="replace"))
        except properties.PropertiesError as error:
            _log.warning(
                "the settings of a broker cannot be read",
                extra=bind(broker_group=str(group.key), id=member, error=str(error)),
            )
            return
        answers.copies[member] = copies_of(settings)
        answers.versions[member] = answer.version
        answers.news.set()

    async def _told(self, group: Group, member: BrokerId, code: RequestCode) -> RemotingCommand | None:
        """Return an answer, asked for until it comes; None after a refusal."""
        while True:
            try:
                return await ask_or_raise(self._ask, group.address(member) or "", code)
            except RefusedError as error:
                _log.info(
                    "a member refuses a question before an election",
                    extra=bind(broker_group=str(group.key), id=member, error=str(error)),
                )
                return None
            except ASK_ERRORS:
                await asyncio.sleep(PAUSE_S)


def _acknowledges(group: Group, member: BrokerId) -> bool:
    """Return whether a member is a broker of the set, which may be elected."""
    return member in group.sync_state_set and is_electable(group, member)
