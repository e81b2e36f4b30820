"""The one reader of JSON that a stranger may have written: answers, events, annotations, files.

| a text that | is refused because |
|---|---|
| is longer than `JSON_BYTES_MAX`, or than the caller's smaller bound | its values would fill the memory |
| nests lists and objects deeper than `JSON_DEPTH_MAX` | the reader, and all code behind it, calls itself |
| has an integer beyond 64 bits, or a number beyond a double | no column, header or clock can hold it |
| has NaN or Infinity | they are not JSON |
| names one field of an object twice | two readers could take different values |
| has half a surrogate pair, or bytes that are not UTF-8 | nothing can write such a text again |

Every refusal is a `JsonError`. Bodies that Java wrote have a reader of their own (`lenient_json`), as their
keys may lack quotes.

Never here: the meaning of a value.
"""

import json
import math
from collections import Counter
from typing import Any, Final

from controller_core import limits

_INTEGER_MIN: Final = -(2**63)
_INTEGER_MAX: Final = 2**64 - 1
_INTEGER_CHARS_MAX: Final = len(str(_INTEGER_MAX))


class JsonError(ValueError):
    """A text is not JSON within the bounds."""


def decode(text: bytes | bytearray | str, bytes_max: int = limits.JSON_BYTES_MAX) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text.

    Raises:
        JsonError: it is not JSON, or passes a bound.
    """
    if len(text) > bytes_max:
        raise JsonError(f"{len(text)} bytes (expected at most {bytes_max})")
    try:
        whole = text if isinstance(text, str) else str(text, "utf-8")
        value = _DECODER.decode(whole)
        if "\\ud" in whole or "\\uD" in whole:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise JsonError("a text has half a surrogate pair") from error
    except RecursionError as error:
        raise JsonError(_TOO_DEEP) from error
    except JsonError:
        raise
    except ValueError as error:
        raise JsonError(f"not JSON: {error}") from error
    check_depth(value)
    return value


def decode_object(text: bytes | bytearray | str, bytes_max: int = limits.JSON_BYTES_MAX) -> dict[str, Any]:
    """Return the object of a JSON text.

    Raises:
        JsonError: it is not JSON, passes a bound, or is another value than an object.
    """
    value = decode(text, bytes_max)
    if not isinstance(value, dict):
        raise JsonError(f"JSON of a {type(value).__name__} (expected an object)")
    return value


def check_depth(value: object) -> None:
    """Check the depth of a value that another reader decoded.

    Raises:
        JsonError: lists and objects are nested deeper than `JSON_DEPTH_MAX`.
    """
    level = [value]
    for _ in range(limits.JSON_DEPTH_MAX):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise JsonError(_TOO_DEEP)


_TOO_DEEP: Final = f"JSON that is nested too deeply (expected at most {limits.JSON_DEPTH_MAX} levels)"


def _object(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(fields)
    if len(value) != len(fields):
        [(twice, _)] = Counter(name for name, _ in fields).most_common(1)
        raise JsonError(f"the field {twice!r:.80} comes twice in one object")
    return value


def _integer(text: str) -> int:
    number = int(text) if len(text) <= _INTEGER_CHARS_MAX else _INTEGER_MAX + 1
    if not _INTEGER_MIN <= number <= _INTEGER_MAX:
        raise JsonError(f"the number {text:.40} (expected at most 64 bits)")
    return number


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise JsonError(f"the number {text:.40} (expected at most 1.8e308)")
    return number


def _constant(text: str) -> float:
    raise JsonError(f"not JSON: {text}")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
