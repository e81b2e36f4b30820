"""Requests that wait for nothing but their command: proposed at once, answered when the command is applied.

Brokers send one kind of write most, changes of the SyncStateSet (1001). On the leader it needs no task: it
takes the place of a future among the proposals (`node.proposals`), and the turn of the loop that applies the
command makes and sends the answer. Tasks and their coroutines cost more than a tenth of the leader's CPU.

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
from controller_core.server.requests.leader_rule import fate_unknown

DIRECT: Final = frozenset({RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET})

SubmitFor = Callable[[AnyCommand, Waiter], Outcome | None]
"""Proposes a command for a waiter, or returns its refusal; raises NotLeaderError or CommandDroppedError."""

_log = logging.getLogger(__name__)


class DirectWrite:
    """One request whose command is in the log or on its way there; a `Waiter` of its proposal.

    Attributes:
        request: the request that waits.
        deadline: ends the wait with 2007.
        on_answer: called once with the answer; the port sets it in the turn in which the request came.
        on_again: called instead, once, if the request must be served again.
    """

    __slots__ = ("_metrics", "deadline", "on_again", "on_answer", "request")

    def __init__(self, request: RemotingCommand, metrics: Metrics) -> None:
        self.request: Final = request
        self.deadline: Deadline | None = None
        self.on_answer: Callable[[RemotingCommand], None] | None = _no_connection
        self.on_again: Callable[[], None] = _nothing
        self._metrics: Final = metrics

    def done(self) -> bool:
        """Whether the request has its answer, or is served again."""
        return self.on_answer is None

    def set_result(self, result: object, /) -> None:
        """Answer with what applying the command gave."""
        self._metrics.commit("applied")
        try:
            answer = answers.answer(self.request, _reply(result))
        except Exception as error:
            _log.exception("request %d failed", self.request.code)
            answer = failure(self.request, error)
        self._finish(answer)

    def set_exception(self, exception: Exception, /) -> None:
        """Answer that the result is unknown, or have the request served again."""
        self._metrics.commit(commit_result(exception))
        if isinstance(exception, ProposalLostError):
            self._finish(fate_unknown(self.request))
        else:
            self.on_answer = None
            self.on_again()

    def cancel(self) -> None:
        """Answer that the time is over."""
        if not self.done():
            self._finish(not_leader(self.request))

    def _finish(self, answer: RemotingCommand) -> None:
        if self.deadline is not None:
            self.deadline.met()
        told, self.on_answer = self.on_answer, None
        if told is None:
            return
        try:
            told(answer)
        except Exception:  # the node must not end for an answer that cannot be sent
            _log.exception("answer to request %d", self.request.code)


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


def _no_connection(_answer: RemotingCommand) -> None:
    """Drop an answer: no connection waits for it."""


def _nothing() -> None:
    """Serve nothing again."""
