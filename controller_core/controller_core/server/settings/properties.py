r"""Java properties text: what `mqcontroller -c` reads and what requests 1009 and 1010 carry.

The file form of java.util.Properties: `key=value`, `key: value` or `key value`; `#` and `!` start a comment
line; a backslash at the end of a line continues it; `\t \n \r \f \\ \uXXXX` and any other escaped character
are undone. The remoting form (RocketMQ's MixAll.properties2String) is simpler, `key=value\n` sorted by key
without escapes, and is what `write` gives.

This module never knows what a key means (`config` does) and never opens a file.

Source: java.util.Properties.load (Java 17 API), RocketMQ MixAll.properties2String 5.4.0, string2Properties
5.4.0.
"""

import codecs
import re
import string
from collections.abc import Iterator, Mapping

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS = 4
_LINE_END = re.compile(r"\r\n|\r|\n")
"""Java's line ends; `str.splitlines` knows more, which are bytes of Latin-1."""


class PropertiesError(ValueError):
    """The text is not a properties text; the message names the line."""


def parse(text: str) -> dict[str, str]:
    r"""Return the keys and values of a properties text; a key given twice keeps its last value.

    Raises:
        PropertiesError: a `\u` escape is not followed by four hexadecimal digits.
    """
    result: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            result[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise PropertiesError(f"line {number}: {error}") from error
    return result


def parse_file(data: bytes) -> dict[str, str]:
    r"""Return the keys and values of a file as java.util.Properties.load(InputStream) reads it.

    Latin-1, no byte is invalid.

    A UTF-8 byte order mark at the start is skipped; Java would take it for a part of the first key.

    Raises:
        PropertiesError: a `\u` escape is not followed by four hexadecimal digits.
    """
    return parse(data.removeprefix(codecs.BOM_UTF8).decode("latin-1"))


def write(values: Mapping[str, str]) -> str:
    r"""Return `key=value\n` lines sorted by key, the form of RocketMQ's remoting bodies."""
    return "".join(f"{key}={values[key]}\n" for key in sorted(values))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending, first_number = "", 0
    for number, raw in enumerate(_LINE_END.split(text), start=1):
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        if not pending:
            first_number = number
        if _continues(line):
            pending += line[:-1]
            continue
        yield first_number, pending + line
        pending = ""
    if pending:
        yield first_number, pending


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Split at the first unescaped separator: `=`, `:` or white space, with white space around it."""
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    key = line[:position]
    rest = line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            parts.append(char)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + _UNICODE_DIGITS]
            if len(digits) < _UNICODE_DIGITS or not set(digits) <= set(string.hexdigits):
                raise ValueError(f"incomplete \\u escape in {text!r}")
            parts.append(chr(int(digits, 16)))
            position += _UNICODE_DIGITS
        else:
            parts.append(_ESCAPES.get(escaped, escaped))
    return "".join(parts)
