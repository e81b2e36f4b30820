"""The two ways remoting can fail: rubbish from a peer, and misuse by us.

`RemotingProtocolError` and its children say that bytes, a header or a body from a peer cannot be what
RocketMQ's protocol allows; the connection that brought them is closed or the request refused, and the process
goes on. `RemotingUsageError` says that our own code asked for something that cannot be put on the wire; it is
a bug here and is never caused by what a peer sends.

Nothing in this package raises anything else for any input.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:  # command.py needs no errors, but an import cycle would be one edit away
    from controller_core.remoting.command import RemotingCommand

VALUE_SHOWN_CHARS_MAX: Final = 80


def shown(value: object) -> str:
    """Quote a peer's value for a message, cut so that a hostile value cannot flood a log."""
    text = repr(value)
    if len(text) <= VALUE_SHOWN_CHARS_MAX:
        return text
    return text[:VALUE_SHOWN_CHARS_MAX] + "..."


class RemotingError(Exception):
    """Anything remoting can raise."""


class RemotingUsageError(RemotingError):
    """Our own code asked for something that cannot be written; nothing was sent."""


class RemotingProtocolError(RemotingError):
    """A peer sent something that the protocol does not allow."""


class FrameError(RemotingProtocolError):
    """A frame cannot be cut out of the byte stream; the stream is lost from there on.

    Attributes:
        offset: where the damaged frame begins, in bytes from the first byte ever fed to the decoder.
        length: what the frame's length word says, in bytes after that word.
        commands: whole frames of the same feed that came before the damage, in order; they are as good as
            any.
    """

    def __init__(
        self, problem: str, *, offset: int, length: int, commands: "Sequence[RemotingCommand]" = ()
    ) -> None:
        super().__init__(f"{problem} (frame at byte {offset}, length {length})")
        self.offset = offset
        self.length = length
        self.commands = tuple(commands)


class HeaderError(RemotingProtocolError):
    """A header field is missing or does not parse.

    Attributes:
        header: the header's name, as RocketMQ's class is called.
        field: the field's name on the wire.
        value: the received text; None if the field is missing.
    """

    def __init__(self, header: str, field: str, value: str | None, problem: str) -> None:
        super().__init__(f"{header}.{field}={shown(value)}: {problem}")
        self.header = header
        self.field = field
        self.value = value


class BodyError(RemotingProtocolError):
    """A body is not the text that its code asks for.

    Attributes:
        body: the body's name, as RocketMQ's class is called.
    """

    def __init__(self, body: str, problem: str) -> None:
        super().__init__(f"{body}: {problem}")
        self.body = body
