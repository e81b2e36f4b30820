"""The ROCKETMQ form of a frame's header: fixed fields, then remark and ext with their lengths.

| bytes | meaning |
|---|---|
| 2, 1, 2 | code, language ordinal, version (int16, int8, int16) |
| 4, 4 | opaque, flag |
| 4, n | remark length and UTF-8; 0 is null |
| 4, n | length of all ext fields, then each: 2, key, 4, value; a key or value of length 0 is null |

Clients write it only when told to (`rocketmq.serialize.type`), servers must read it. A null value is an
absent field here, and a field without a key is dropped. The Java ordinal of the language is unsigned by
meaning; unknown is OTHER.

Source: RocketMQSerializable.java (5.1.1 to 5.5.0).
"""

import struct
from typing import Final

from controller_core.remoting.codes import LanguageCode, SerializeType
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError, RemotingUsageError

_FIXED: Final = struct.Struct(">hbhii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def encode(command: RemotingCommand) -> bytes:
    """Write a command's header in the binary form.

    Raises:
        RemotingUsageError: a number does not fit (code and version are int16) or a text is not valid Unicode.
    """
    try:
        fixed = _FIXED.pack(command.code, command.language, command.version, command.opaque, command.flag)
        remark = (command.remark or "").encode()
        fields = b"".join(_field(key, value) for key, value in (command.ext or {}).items())
        return b"".join((fixed, _INT32.pack(len(remark)), remark, _INT32.pack(len(fields)), fields))
    except (struct.error, UnicodeEncodeError, AttributeError) as error:
        raise RemotingUsageError(
            f"header of code {command.code} cannot be written as binary: {error}"
        ) from error


def decode(header: bytes, body: bytes) -> RemotingCommand:
    """Read a binary header and join it with its body.

    Raises:
        RemotingProtocolError: a length points outside the header or a text is not UTF-8.
    """
    try:
        code, language, version, opaque, flag = _FIXED.unpack_from(header)
        remark, at = _text(header, _FIXED.size, _INT32)
        ext = _ext(header, at)
    except (struct.error, UnicodeDecodeError) as error:
        raise RemotingProtocolError(f"binary header of {len(header)} bytes: {error}") from error
    return RemotingCommand(
        code=code,
        opaque=opaque,
        flag=flag,
        remark=remark or None,
        ext=ext,
        body=body,
        language=LanguageCode(language) if 0 <= language < len(LanguageCode) else LanguageCode.OTHER,
        version=version,
        serialize_type=SerializeType.ROCKETMQ,
    )


def _field(key: str, value: str) -> bytes:
    key_bytes = key.encode()
    value_bytes = value.encode()
    return b"".join((_INT16.pack(len(key_bytes)), key_bytes, _INT32.pack(len(value_bytes)), value_bytes))


def _ext(header: bytes, at: int) -> dict[str, str] | None:
    (length,) = _INT32.unpack_from(header, at)
    at += _INT32.size
    end = at + length
    if length < 0 or end > len(header):
        raise RemotingProtocolError(f"ext fields of {length} bytes at {at} of a header of {len(header)}")
    if length == 0:
        return None
    ext: dict[str, str] = {}
    while at < end:
        key, at = _text(header, at, _INT16)
        value, at = _text(header, at, _INT32)
        if key and value:
            ext[key] = value
    return ext


def _text(header: bytes, at: int, length_kind: struct.Struct) -> tuple[str, int]:
    """Read a length and that much UTF-8; return the text and where it ends."""
    (length,) = length_kind.unpack_from(header, at)
    at += length_kind.size
    if length < 0 or at + length > len(header):
        raise RemotingProtocolError(f"text of {length} bytes at {at} of a header of {len(header)}")
    return header[at : at + length].decode(), at + length
