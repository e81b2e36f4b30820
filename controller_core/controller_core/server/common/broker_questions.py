"""Send one request to a broker over the connection of its notices; return a successful answer or raise.

The caller decides how to go on after an error: try again, continue without the answer, or refuse its own
work.
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
"""Takes address, request and timeout in seconds, returns the answer.

Raises ChannelError, or ValueError for an invalid address.
"""


class RefusedError(Exception):
    """The broker answered, and not with success."""


ASK_ERRORS: Final = (ChannelError, RemotingProtocolError, TimeoutError, ValueError, RefusedError)
"""All errors of a request to a broker: not reachable, no answer in time, a refusal, an unreadable answer."""


async def ask_or_raise(
    ask: Ask, address: str, code: RequestCode, ext: dict[str, str] | None = None, body: bytes = b""
) -> RemotingCommand:
    """Return the broker's answer.

    Raises:
        RefusedError: the answer is not a success.
        ChannelError, ValueError: no answer came.
    """
    answer = await ask(address, RemotingCommand.request(code, ext, body), ASK_TIMEOUT_S)
    if answer.code != ResponseCode.SUCCESS:
        raise RefusedError(refusal(code.name, answer))
    return answer
