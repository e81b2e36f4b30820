"""Propose commands.

Encode a command, put it into the log, count what became of it, return what applying it gave.
"""

import logging
from collections.abc import Awaitable
from typing import Protocol

from controller_core.groups import commands
from controller_core.groups.commands import AnyCommand
from controller_core.groups.errors import CommandTooLargeError
from controller_core.groups.replies import GroupReply, Outcome
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.errors import shown
from controller_core.server.common.metrics import Metrics
from controller_core.server.logs import bind
from controller_core.server.node.proposals import Waiter
from controller_core.server.node.types import CommandDroppedError, NotLeaderError, ProposalLostError

_log = logging.getLogger(__name__)


class ProposingNode(Protocol):
    """The part of the Raft node that proposals need."""

    @property
    def is_leader(self) -> bool:
        """Whether this node leads now."""
        ...

    def propose(self, data: bytes) -> Awaitable[object]:
        """Put a command into the log and return what applying it gave."""
        ...

    def propose_for(self, data: bytes, waiter: Waiter) -> None:
        """Put a command into the log and tell `waiter` what applying it gave."""
        ...


class CommandProposer:
    """Proposes commands and counts the results."""

    def __init__(self, node: ProposingNode, metrics: Metrics) -> None:
        self._node = node
        self._metrics = metrics

    async def propose(self, command: AnyCommand) -> Outcome:
        """Propose a command and return what applying it led to.

        Refuse (2005) a command that no log entry can hold.

        Raises:
            NotLeaderError: this node does not lead; nothing happened.
            CommandDroppedError: the log could not take it; nothing happened.
            ProposalLostError: leadership was lost before the result; the fate of the command is unknown.
        """
        data = self._encoded(command)
        if isinstance(data, Outcome):
            return data
        try:
            outcome = await self._node.propose(data)
        except (NotLeaderError, CommandDroppedError, ProposalLostError) as error:
            self._metrics.commit(commit_result(error))
            raise
        self._metrics.commit("applied")
        if not isinstance(outcome, Outcome):
            raise TypeError(f"applying {type(command).__name__} gave {outcome!r}")
        return outcome

    def propose_for(self, command: AnyCommand, waiter: Waiter) -> Outcome | None:
        """Propose a command for a waiter, which counts the result; return the refusal of one too large.

        Raises:
            NotLeaderError, CommandDroppedError: nothing happened, and the waiter will not be told.
        """
        data = self._encoded(command)
        if isinstance(data, Outcome):
            return data
        try:
            self._node.propose_for(data, waiter)
        except (NotLeaderError, CommandDroppedError) as error:
            self._metrics.commit(commit_result(error))
            raise
        return None

    def _encoded(self, command: AnyCommand) -> bytes | Outcome:
        """Return a command's bytes; the refusal of one that no log entry can hold."""
        try:
            return commands.encode(command)
        except CommandTooLargeError as error:
            self._metrics.commit("refused")
            _log.error(
                "a command is not proposed: %s", error, extra=bind(broker_group=shown(command.broker_name))
            )
            return Outcome(GroupReply(ResponseCode.CONTROLLER_INVALID_REQUEST, None, str(error)))


def commit_result(error: Exception) -> str:
    """Return the metric label of a command that was not applied."""
    match error:
        case NotLeaderError():
            return "not_leader"
        case CommandDroppedError():
            return "dropped"
        case _:
            return "lost"
