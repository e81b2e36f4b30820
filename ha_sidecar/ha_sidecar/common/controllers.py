"""The sidecar's side of the controllers: calls to the leader, over one lasting connection to each of them.

`ask` is for questions whose answer moves something: which master the replica follows, where the companion
relays sends, whether the fence closes. No single controller decides the answer (see `majority`):

1. All controllers are asked for the leader (1005), and the leader known so far gets the question at the same
   time.
2. If a majority names that leader, its answer counts: one round trip. If a majority names another one, that
   one gets the question. For `VOUCHED_S` after that only the leader is asked.
3. If the leader's address is not one of ours, all controllers get the question, and the answer of a majority
   counts.
4. Otherwise `ask` raises `ControllersUnavailableError`.

While a leader does not answer, `ask` and `call` look for another one every `LOOK_AGAIN_S`. So a leader on a
lost node, whose connection stays open, delays an answer only until a majority names another one.

So one controller that lies, or that was deposed, can neither invent an answer nor keep the answers of the
others from being heard. One case remains: a process that takes over the leader's address answers until the
other controllers elect another leader.

`call` is for requests that change something at the controllers. They go to the leader that a majority named
last.

Source: ReplicasManager.updateControllerMetadata 5.4.0.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from controller_core.channel import ChannelError, Connection
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.headers import GetMetaDataResponseHeader
from ha_sidecar.common.controller_links import LastingLinks
from ha_sidecar.decisions.majority import (
    ControllerAnswer,
    ControllerCount,
    NamedLeader,
    address_of,
    majority_of,
    named_leader,
)

CALL_TIMEOUT_S: Final = 2.0
"""Below the 3 s in which Java's clients give a connection up."""
LEADER_TIMEOUT_S: Final = 0.5
LOOK_AGAIN_S: Final = 0.2
"""Between two looks for another leader, while the known one does not answer."""
CALL_ATTEMPTS_MAX: Final = 3
VOUCHED_S: Final = 0.2
"""How long a leader counts as named by a majority, over the same connection.

A thousand replicas may ask 50 times per second.
"""

T = TypeVar("T")


class ControllersUnavailableError(Exception):
    """No controller answered as the leader; try again later."""


@dataclass(frozen=True, slots=True)
class AnswerCount:
    """How many controllers answered, of how many that there are."""

    count: int
    of: int

    @property
    def is_majority(self) -> bool:
        """Whether most of them answered."""
        return 2 * self.count > self.of


class Controllers:
    """All controllers of the cluster.

    Attributes:
        links: the connections to them.
    """

    def __init__(
        self, addresses: Sequence[tuple[str, int]], on_connected: Callable[[Connection], None] | None = None
    ) -> None:
        """Name them; `on_connected` is called with each connection as it opens."""
        self.links: Final = LastingLinks(addresses, on_connected)
        self._leader: str | None = None
        self._vouched: Connection | None = None
        self._vouched_until_s = 0.0
        self._of_addresses: Final = len(addresses)
        self._count: Final = ControllerCount(len(addresses))
        self._of = len(addresses)

    def start(self) -> None:
        """Begin to hold a connection to each."""
        self.links.start()

    async def stop(self) -> None:
        """Close all connections."""
        await self.links.stop()

    async def ask_each(self, command: RemotingCommand, timeout_s: float) -> dict[str, RemotingCommand]:
        """Ask every connected controller; return the answers that come in time, by address."""

        async def tell(connection: Connection) -> RemotingCommand:
            return await connection.call(command, timeout_s)

        return await self._ask_all(tell, lambda _: False)

    async def call(self, command: RemotingCommand) -> RemotingCommand:
        """Send a request to the leader and return its answer, whatever its code but "not leader".

        Raises:
            ControllersUnavailableError: no controller answered as the leader.
        """
        problem = "no connection is open"
        for _ in range(CALL_ATTEMPTS_MAX):
            connection = await self._leader_connection()
            if connection is None:
                break
            try:
                answer = await self._answer_of(connection, command)
            except ChannelError as error:
                problem = str(error)
            else:
                if _leads(answer):
                    return answer
                problem = f"{connection.peer} does not lead"
            self._leader = None
        raise ControllersUnavailableError(problem)

    async def ask(self, question: RemotingCommand) -> RemotingCommand:
        """Return the answer that a majority of the controllers vouches for, with any code but "not leader".

        Raises:
            ControllersUnavailableError: no majority vouches for an answer.
        """
        await self.links.wait_tried()
        problem = "no connection is open"
        for _ in range(CALL_ATTEMPTS_MAX):
            if not self.links.open:
                break
            try:
                answer = await self._ask_once(question)
            except ChannelError as error:
                problem = str(error)
            else:
                if answer is not None and _leads(answer):
                    return answer
                problem = "no majority of the controllers vouches for an answer"
            self._leader = None
        raise ControllersUnavailableError(problem)

    async def _ask_once(self, question: RemotingCommand) -> RemotingCommand | None:
        guess = self._leader
        guessed = self.links.open.get(guess or "")
        if guessed is not None and guessed is self._vouched and _now_s() < self._vouched_until_s:
            return await self._answer_of(guessed, question)
        early = None if guessed is None else asyncio.ensure_future(guessed.call(question, CALL_TIMEOUT_S))
        try:
            address = await self._find_leader()
            if guessed is not None and address == guess:
                return await self._answer_of(guessed, question, early)
            connection = self.links.open.get(address or "")
            if connection is not None:
                return await self._answer_of(connection, question)
            return await self._equal_answer(question)
        finally:
            if early is not None:
                early.cancel()
                await asyncio.gather(early, return_exceptions=True)

    async def _answer_of(
        self,
        leader: Connection,
        question: RemotingCommand,
        asked: asyncio.Future[RemotingCommand] | None = None,
    ) -> RemotingCommand:
        """Return the answer of the leader, or of the one that a majority names while that does not answer.

        Why not wait for the first one alone: it may be on a node that is gone, and its connection stays open.

        Args:
            leader: the leader as far as it is known.
            question: what to ask.
            asked: the question to that leader, if it is on its way already.

        Raises:
            ChannelError: the leader does not answer, and no other is named.
        """
        while True:
            asked = asked or asyncio.ensure_future(leader.call(question, CALL_TIMEOUT_S))
            try:
                successor = await self._other_leader(leader, asked)
                if successor is None:
                    return await asked
            finally:
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
            leader, asked = successor, None

    async def _other_leader(
        self, leader: Connection, asked: asyncio.Future[RemotingCommand]
    ) -> Connection | None:
        """Return the other leader that a majority names before this one has answered; None if it answers."""
        while not (await asyncio.wait({asked}, timeout=LOOK_AGAIN_S))[0]:
            named = self.links.open.get(await self._find_leader() or "")
            if named is not None and named is not leader:
                return named
        return None

    async def _equal_answer(self, question: RemotingCommand) -> RemotingCommand | None:
        """Ask all; return the answer that a majority gives as soon as it has, None if it does not."""

        async def tell(connection: Connection) -> RemotingCommand:
            return await connection.call(question, CALL_TIMEOUT_S)

        def found(answers: Mapping[str, RemotingCommand]) -> RemotingCommand | None:
            contents = {_content(answer): answer for answer in answers.values()}
            given = [_content(answer) for answer in answers.values() if _leads(answer)]
            content = majority_of(given, self._of)
            return None if content is None else contents[content]

        return found(await self._ask_all(tell, lambda answers: found(answers) is not None))

    def forget_leader(self) -> None:
        """Ask who leads again before the next call: the answer of the supposed leader was of no use."""
        self._leader = None

    async def count_answering(self, timeout_s: float) -> AnswerCount:
        """Ask every controller who leads; return how many answered in time, whatever they said.

        Of how many, they say themselves: the list that was given here may name some that do not run yet.
        Where they differ, the largest counts, the number that a majority told last included: more must be
        heard for a majority then, not fewer.
        """
        views = await self._views(timeout_s, lambda _: False)
        counts = [view.count or self._of_addresses for view in views.values()]
        known = self._count.known(_now_s())
        return AnswerCount(len(counts), max(*counts, known) if counts else known or self._of_addresses)

    async def _leader_connection(self) -> Connection | None:
        known = self.links.open.get(self._leader or "")
        if known is not None:
            return known
        await self.links.wait_tried()
        connection = self.links.open.get(await self._find_leader() or "")
        # Any controller of this project forwards to its leader, whatever address that one goes by.
        return connection or next(iter(self.links.open.values()), None)

    async def _find_leader(self) -> str | None:
        """Return the address of the leader that a majority names, as soon as it does; None if it does not.

        Wait for all connected controllers until a majority has said how many exist, and where controllers
        know each other by other addresses than ours: which one claims to lead cannot be told from a part of
        the answers.
        """
        known = self._count.known(_now_s())

        def is_enough(views: Mapping[str, ControllerAnswer]) -> bool:
            leader = named_leader(views, known) if known else None
            return leader is not None and leader.address in self.links.open

        views = await self._views(LEADER_TIMEOUT_S, is_enough)
        self._of = self._count.learn([view.count for view in views.values()], _now_s())
        leader = named_leader(views, self._of)
        self._leader = None if leader is None else address_of(leader, views, self.links.open)
        self._vouched, self._vouched_until_s = self.links.open.get(self._leader or ""), _now_s() + VOUCHED_S
        return self._leader

    async def _views(
        self, timeout_s: float, is_enough: Callable[[Mapping[str, ControllerAnswer]], bool]
    ) -> Mapping[str, ControllerAnswer]:
        async def view(connection: Connection) -> ControllerAnswer:
            request = RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO)
            return controller_answer(await connection.call(request, timeout_s))

        return await self._ask_all(view, is_enough)

    async def _ask_all(
        self, ask: Callable[[Connection], Awaitable[T]], is_enough: Callable[[Mapping[str, T]], bool]
    ) -> dict[str, T]:
        """Ask over all open connections at once; return the answers by address as soon as they are enough."""

        async def ask_one(address: str, connection: Connection) -> tuple[str, T] | None:
            try:
                return address, await ask(connection)
            except ChannelError:
                return None

        answers: dict[str, T] = {}
        tasks = [asyncio.ensure_future(ask_one(*item)) for item in list(self.links.open.items())]
        try:
            for task in asyncio.as_completed(tasks):
                answered = await task
                if answered is not None:
                    answers[answered[0]] = answered[1]
                    if is_enough(answers):
                        break
        finally:
            for open_task in tasks:
                open_task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return answers


def controller_answer(answer: RemotingCommand) -> ControllerAnswer:
    """Read the answer to 1005; an unreadable one names no leader."""
    try:
        header = GetMetaDataResponseHeader.from_ext(answer.ext)
    except RemotingProtocolError:
        return ControllerAnswer(0, None)
    leader = NamedLeader(header.controller_leader_id or None, header.controller_leader_address or None)
    count = len([peer for peer in re.split("[;,]", header.peers or "") if peer])
    return ControllerAnswer(count, leader if leader.id or leader.address else None, header.is_leader)


def _leads(answer: RemotingCommand) -> bool:
    return answer.code != ResponseCode.CONTROLLER_NOT_LEADER


def _content(answer: RemotingCommand) -> tuple[int, tuple[tuple[str, str], ...], bytes]:
    """Return what two equal answers have in common; remarks are words for a person."""
    return answer.code, tuple(sorted((answer.ext or {}).items())), bytes(answer.body)


def _now_s() -> float:
    return asyncio.get_running_loop().time()
