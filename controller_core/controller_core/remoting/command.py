"""One remoting frame as a value: a request, a oneway request, or the answer to a request.

RocketMQ uses one shape in both directions. What tells them apart are two bits of `flag`; what joins an answer
to its request is `opaque` alone, a number the asker chose. All arguments but the payload travel as `ext`, a
flat map of strings; `headers` and `bodies` give them types.

A command is frozen: another opaque needs another command. It is a msgspec Struct and not a dataclass
because one is made for every frame, and a Struct is made five times faster.

Source: RemotingCommand.java (5.1.1 to 5.5.0).
"""

from typing import Final

import msgspec

from controller_core.remoting.codes import LanguageCode, ResponseCode, SerializeType

FLAG_RESPONSE: Final = 1
FLAG_ONEWAY: Final = 2
_COMMAND_BYTES: Final = 256
_FIELD_BYTES: Final = 160
"""Of two texts and their entry in a table, without the texts' letters."""


class RemotingCommand(msgspec.Struct, frozen=True):
    """One frame, either direction.

    Attributes:
        code: a request's `RequestCode`, an answer's `ResponseCode`; any int32 may come from a peer.
        opaque: int32 chosen by the asker and repeated in the answer; the channel sets it on calls.
        flag: bit 0 set in answers, bit 1 in requests that want none.
        remark: text for people; None if absent.
        ext: header fields; None if the frame lacks this map, which Java distinguishes from an empty one. A
            field that is null on the wire is absent here.
        body: payload bytes; empty if absent (Java does not tell the two apart).
        language: who wrote it.
        version: ordinal of the writer's MQVersion; Java's controller sends 0.
        serialize_type: how the header is, or will be, written.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    ext: dict[str, str] | None = None
    body: bytes = b""
    language: LanguageCode = LanguageCode.PYTHON
    version: int = 0
    serialize_type: SerializeType = SerializeType.JSON

    @property
    def is_response(self) -> bool:
        """Say whether this answers a request."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Say whether the sender wants no answer; answering such a request is a protocol error."""
        return bool(self.flag & FLAG_ONEWAY)

    def size_bytes(self) -> int:
        """Return about how many bytes of memory this command takes."""
        ext = self.ext or {}
        texts = sum(_FIELD_BYTES + len(name) + len(value) for name, value in ext.items())
        return _COMMAND_BYTES + len(self.body) + texts

    @classmethod
    def request(
        cls, code: int, ext: dict[str, str] | None = None, body: bytes = b"", *, oneway: bool = False
    ) -> "RemotingCommand":
        """Make a request; the channel gives it its opaque when it is sent."""
        return cls(code=code, ext=ext, body=body, flag=FLAG_ONEWAY if oneway else 0)

    @classmethod
    def response_to(
        cls,
        request: "RemotingCommand",
        code: int,
        ext: dict[str, str] | None = None,
        remark: str | None = None,
        body: bytes = b"",
    ) -> "RemotingCommand":
        """Make the answer to a request.

        The header is JSON whatever the request used, as Java's servers do; clients read both.
        """
        return cls(code=code, opaque=request.opaque, flag=FLAG_RESPONSE, remark=remark, ext=ext, body=body)

    def with_opaque(self, opaque: int) -> "RemotingCommand":
        """Copy this command with another opaque."""
        return RemotingCommand(
            self.code,
            opaque,
            self.flag,
            self.remark,
            self.ext,
            self.body,
            self.language,
            self.version,
            self.serialize_type,
        )


def failure(request: RemotingCommand, error: Exception) -> RemotingCommand:
    """Answer as Java does when a handler throws: code 1 and the exception's text."""
    return RemotingCommand.response_to(
        request, ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}"
    )
