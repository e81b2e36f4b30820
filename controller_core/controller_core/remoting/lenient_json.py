"""JSON as Java writes it: standard JSON, except that map keys which are numbers stand without quotes.

fastjson writes `{"brokerAddrs":{0:"10.0.0.1:10911"}}` for a `Map<Long, String>`. `decode` reads that and all
standard JSON, in time linear in the text. Quoting the bare keys first and then reading strictly needs only
one JSON parser; texts that are already standard take no second pass.

Not supported: single quotes, comments, NaN, `$ref`. None of them occurs in the bodies this system asks for.
"""

import re
from typing import Any, Final, TypeVar, overload

import msgspec

from controller_core import bounded_json
from controller_core.remoting.errors import RemotingProtocolError

T = TypeVar("T")

# A text is consumed whole, even without its end, so that nothing inside it looks like a key and the work
# stays linear.
_BARE_KEY: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|([{,]\s*+)(-?[A-Za-z0-9_.$]++)(?=\s*+:)', re.DOTALL)


def _quoted(match: re.Match[bytes]) -> bytes:
    before, key = match.groups()
    return match[0] if key is None else before + b'"' + key + b'"'


@overload
def decode(text: bytes) -> Any: ...  # noqa: ANN401 - any JSON value
@overload
def decode(text: bytes, kind: type[T]) -> T: ...
def decode(text: bytes, kind: type[Any] | None = None) -> Any:
    """Read a body that a Java process wrote, as plain values or as `kind` (any type msgspec knows).

    Raises:
        RemotingProtocolError: not JSON even so, not of that kind, or nested too deeply.
    """
    wanted: Any = Any if kind is None else kind
    try:
        value = _decode(text, wanted)
        if kind is None:
            bounded_json.check_depth(value)
    except (ValueError, RecursionError) as error:
        raise RemotingProtocolError(f"body is not JSON, nor what Java writes for it: {error}") from error
    return value


def _decode(text: bytes, wanted: Any) -> Any:  # noqa: ANN401 - any JSON value
    try:
        return msgspec.json.decode(text, type=wanted, strict=False)
    except msgspec.ValidationError as error:
        raise RemotingProtocolError(f"body does not fit: {error}") from error
    except (ValueError, RecursionError):
        return msgspec.json.decode(_BARE_KEY.sub(_quoted, text), type=wanted, strict=False)
