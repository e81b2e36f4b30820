"""Requests that wait for nothing but their command: proposed at once, answered when the command is applied.

Brokers send one kind of write most, changes of the SyncStateSet (1001). On the leader it needs no task
(`waiting_request`): the turn of the loop that applies the command makes and sends the answer.

    the command is applied                  ->  the answer of its outcome
    it was not proposed after all, because  ->  `on_again`: `leader_rule` serves the request in the time that
    leadership or the log was lost              is left
    the result is unknown                   ->  2007, marked for a node that forwarded the request
    the time is over                        ->  2007

A request is answered once. Other kinds of writes wait for something before or after their command, and have
tasks of their own.
"""

import logging
from collections.abc import Callable
from typing import Final

from controller_core.groups.commands import AnyCommand
from controller_core.groups.replies import GroupReply, Outcome
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand, failure
from controller_core.server.common.metrics import Metrics
from controller_core.server.node.proposals import Waiter
from controller_core.server.node.types import CommandDroppedError, NotLeaderError, ProposalLostError
from controller_core.server.proposals.proposer import commit_result
from controller_core.server.requests import answers
from controller_core.server.requests.answers import not_leader
from controller_core.server.requests.deadlines import Deadline
from controller_core.server.requests.direct.waiting_request import WaitingRequest
from controller_core.server.requests.leader_rule import fate_unknown

DIRECT: Final = frozenset({RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET})

SubmitFor = Callable[[AnyCommand, Waiter], Outcome | None]
"""Proposes a command for a waiter, or returns its refusal; raises NotLeaderError or CommandDroppedError."""

_log = logging.getLogger(__name__)


class DirectWrite(WaitingRequest):
    """One request whose command is in the log or on its way there; a `Waiter` of its proposal.

    Its deadline ends the wait with 2007.
    """

    __slots__ = ("_metrics",)

    def __init__(self, request: RemotingCommand, metrics: Metrics) -> None:
        super().__init__(request)
        self._metrics: Final = metrics

    def set_result(self, result: object, /) -> None:
        """Answer with what applying the command gave."""
        self._metrics.commit("applied")
        try:
            answer = answers.answer(self.request, _reply(result))
        except Exception as error:
            _log.exception("request %d failed", self.request.code)
            answer = failure(self.request, error)
        self.finish(answer)

    def set_exception(self, exception: Exception, /) -> None:
        """Answer that the result is unknown, or have the request served again."""
        self._metrics.commit(commit_result(exception))
        if isinstance(exception, ProposalLostError):
            self.finish(fate_unknown(self.request))
        else:
            self.serve_again()

    def cancel(self) -> None:
        """Answer that the time is over."""
        if not self.done():
            self.finish(not_leader(self.request))


def _reply(result: object) -> GroupReply:
    if not isinstance(result, Outcome):
        raise TypeError(f"applying a request's command gave {result!r}")
    return result.reply


class DirectWrites:
    """Proposes the commands of such requests."""

    def __init__(
        self, submit_for: SubmitFor, begin: Callable[[DirectWrite], Deadline], metrics: Metrics
    ) -> None:
        """Take how to propose, how to begin the time of a request, and where results are counted."""
        self._submit_for = submit_for
        self._begin = begin
        self._metrics = metrics

    def propose(self, request: RemotingCommand, command: AnyCommand) -> DirectWrite | RemotingCommand | None:
        """Propose a request's command; return the answer of a refused one, None if the log cannot take it."""
        write = DirectWrite(request, self._metrics)
        try:
            refused = self._submit_for(command, write)
        except (NotLeaderError, CommandDroppedError):
            return None
        if refused is not None:
            return answers.answer(request, refused.reply)
        write.deadline = self._begin(write)
        return write
