"""A request that waits for the node without a task, and is answered or served again, once.

Tasks and their coroutines cost more than a tenth of a busy node's CPU. Such a request takes the place of a
future (`node.proposals.Waiter`): the turn of the loop that has what it waits for makes and sends the answer.
"""

import logging
from collections.abc import Callable
from typing import Final

from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.frame import PreparedAnswer
from controller_core.server.requests.deadlines import Deadline

_log = logging.getLogger(__name__)


class WaitingRequest:
    """One such request.

    Attributes:
        request: the request that waits.
        deadline: ends the wait; None if something else does.
        on_answer: called once with the answer; the port sets it in the turn in which the request came.
        on_again: called instead, once, if the request must be served again.
    """

    __slots__ = ("deadline", "on_again", "on_answer", "request")

    def __init__(self, request: RemotingCommand) -> None:
        self.request: Final = request
        self.deadline: Deadline | None = None
        self.on_answer: Callable[[RemotingCommand | PreparedAnswer], None] | None = _no_connection
        self.on_again: Callable[[], None] = _nothing

    def done(self) -> bool:
        """Whether the request has its answer, or is served again."""
        return self.on_answer is None

    def serve_again(self) -> None:
        """Have the request served another way."""
        if self.on_answer is not None:
            self.on_answer = None
            self.on_again()

    def finish(self, answer: RemotingCommand | PreparedAnswer) -> None:
        """Give the answer."""
        if self.deadline is not None:
            self.deadline.met()
        told, self.on_answer = self.on_answer, None
        if told is None:
            return
        try:
            told(answer)
        except Exception:  # the node must not end for an answer that cannot be sent
            _log.exception("answer to request %d", self.request.code)


def _no_connection(_answer: RemotingCommand | PreparedAnswer) -> None:
    """Drop an answer: no connection waits for it."""


def _nothing() -> None:
    """Serve nothing again."""
