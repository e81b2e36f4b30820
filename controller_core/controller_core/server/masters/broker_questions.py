"""Asking a broker one thing, over the connection that notices use: an answer that is a success, or an error.

Whoever asks decides what trouble means: to try again, to do without, to refuse what depends on it.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from controller_core.channel.errors import ChannelError
from controller_core.channel.refusals import refusal
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError

ASK_TIMEOUT_S: Final = 0.5

Ask = Callable[[str, RemotingCommand, float], Awaitable[RemotingCommand]]
"""Given address, request and time-out in seconds: the broker's answer; raises ChannelError, ValueError for no address."""


class RefusedError(Exception):
    """The broker answered, and not with success."""


ASK_ERRORS: Final = (ChannelError, RemotingProtocolError, TimeoutError, ValueError, RefusedError)
"""All that may come of a question: nobody there, no answer in time, a refusal, an answer that cannot be read."""


async def ask_or_raise(
    ask: Ask, address: str, code: RequestCode, ext: dict[str, str] | None = None, body: bytes = b""
) -> RemotingCommand:
    """Return the broker's answer.

    Raises:
        RefusedError: it is no success.
        ChannelError, ValueError: there is none.
    """
    answer = await ask(address, RemotingCommand.request(code, ext, body), ASK_TIMEOUT_S)
    if answer.code != ResponseCode.SUCCESS:
        raise RefusedError(refusal(code.name, answer))
    return answer
