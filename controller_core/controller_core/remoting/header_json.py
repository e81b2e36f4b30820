"""The JSON form of a frame's header, as Java's fastjson writes and reads it.

Java writes its keys in alphabetical order and leaves out null values; `encode` does the same, byte for byte.
Java reads loosely: numbers as strings, header fields as numbers or booleans, a language by name or ordinal,
unknown keys. A strict decoder takes what clients really send in one pass of C code; only what it refuses goes
the tolerant way.

Source: RemotingCommand.java headerEncode/headerDecode; the tolerance was tested on 5.1.4, 5.3.3, 5.4.0 and
5.5.0.
"""

from typing import Annotated, Any, Final

import msgspec

from controller_core import bounded_json
from controller_core.remoting.codes import LanguageCode, SerializeType
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError, RemotingUsageError, shown

INT32_MIN: Final = -(2**31)
INT32_MAX: Final = 2**31 - 1

_Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]


class _Header(msgspec.Struct, omit_defaults=True):
    """The keys of RemotingCommand's JSON in the order that Java writes them.

    `code` to `version` lack a default where Java always writes them, so that omit_defaults keeps them.
    """

    code: _Int32
    extFields: dict[str, str] | None = None
    flag: _Int32 | msgspec.UnsetType = msgspec.UNSET
    language: str | msgspec.UnsetType = msgspec.UNSET
    opaque: _Int32 | msgspec.UnsetType = msgspec.UNSET
    remark: str | None = None
    serializeTypeCurrentRPC: str | msgspec.UnsetType = msgspec.UNSET
    version: _Int32 | msgspec.UnsetType = msgspec.UNSET


class _Read(msgspec.Struct):
    """The same keys for reading; absent keys have Java's default, unknown keys are skipped."""

    code: _Int32
    extFields: dict[str, str] | None = None
    flag: _Int32 = 0
    language: str = LanguageCode.JAVA.name
    opaque: _Int32 = 0
    remark: str | None = None
    version: _Int32 = 0


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(_Read)
_LANGUAGE_NAMES: Final = {language: language.name for language in LanguageCode}
_LANGUAGES: Final = {language.name: language for language in LanguageCode}


def encode(command: RemotingCommand) -> bytes:
    """Write a command's header as Java's fastjson would.

    Raises:
        RemotingUsageError: a text is not valid Unicode, a number is not an int32 or an ext value is not a
            str.
    """
    for name, value in (("code", command.code), ("opaque", command.opaque), ("flag", command.flag)):
        if not INT32_MIN <= value <= INT32_MAX:
            raise RemotingUsageError(f"{name}={value} does not fit an int32")
    header = _Header(
        int(command.code),
        command.ext,
        command.flag,
        _LANGUAGE_NAMES[command.language],
        command.opaque,
        command.remark,
        "JSON",
        command.version,
    )
    try:
        return _ENCODER.encode(header)
    except (TypeError, ValueError) as error:
        raise RemotingUsageError(
            f"header of code {command.code} cannot be written as JSON: {error}"
        ) from error


def decode(header: bytes, body: bytes) -> RemotingCommand:
    """Read a JSON header and join it with its body.

    Raises:
        RemotingProtocolError: it is not JSON, not an object, or a field is beyond what Java would read.
    """
    try:
        known = _DECODER.decode(header)
    except (ValueError, RecursionError):
        return _decode_loosely(header, body)
    # By position, since one is made for every frame: it takes half as long as by name.
    return RemotingCommand(
        known.code,
        known.opaque,
        known.flag,
        known.remark,
        known.extFields,
        body,
        _LANGUAGES.get(known.language, LanguageCode.OTHER),
        known.version,
    )


def _decode_loosely(header: bytes, body: bytes) -> RemotingCommand:
    try:
        raw = msgspec.json.decode(header)
        bounded_json.check_depth(raw)
    except (ValueError, RecursionError) as error:
        raise RemotingProtocolError(f"header is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise RemotingProtocolError(f"header is a JSON {type(raw).__name__}, not an object")
    remark = raw.get("remark")
    return RemotingCommand(
        code=_int32(raw, "code"),
        opaque=_int32(raw, "opaque"),
        flag=_int32(raw, "flag"),
        remark=None if remark is None else _text("remark", remark),
        ext=_ext(raw.get("extFields")),
        body=body,
        language=_language(raw.get("language", msgspec.UNSET)),
        version=_int32(raw, "version"),
        serialize_type=SerializeType.JSON,
    )


def _int32(raw: dict[str, Any], name: str) -> int:
    value = raw.get(name)
    if value is None:
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise RemotingProtocolError(f"header field {name}={shown(value)} is not a number") from error
    if not INT32_MIN <= number <= INT32_MAX:
        raise RemotingProtocolError(f"header field {name}={shown(value)} does not fit an int32")
    return number


def _ext(raw: object) -> dict[str, str] | None:
    if raw is None:
        return None
    if not isinstance(raw, dict):
        raise RemotingProtocolError(f"extFields={shown(raw)} is not an object")
    return {key: _text(key, value) for key, value in raw.items() if value is not None}


def _text(name: str, value: object) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return msgspec.json.encode(value).decode()


def _language(raw: object) -> LanguageCode:
    """Name or ordinal to a language; absent is Java's default, anything unknown is OTHER (null in Java)."""
    if raw is msgspec.UNSET:
        return LanguageCode.JAVA
    if isinstance(raw, str):
        return _LANGUAGES.get(raw, LanguageCode.OTHER)
    if isinstance(raw, int) and 0 <= raw < len(LanguageCode):
        return LanguageCode(raw)
    return LanguageCode.OTHER
