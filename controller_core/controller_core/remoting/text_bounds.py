"""How long the texts of a request may be, and which characters they may hold.

A text that passes here can reach a command of the replicated log, a table in memory, an event or a log line.
So a peer must not choose its size. RocketMQ's own controller checks nothing here. These bounds leave room for
every broker that RocketMQ can run:

| text | what RocketMQ puts there |
|---|---|
| a name | a host name by default (at most 253 bytes), and the name of a topic that each broker makes |
| an address | `host:port`; a host name has at most 253 bytes |
| a check code | `<address>;<milliseconds>` |
| a list of ids | `1;2;3`, from an administrator |

Control characters, line separators and halves of a surrogate pair are refused everywhere: no topic name, host
name or address has them, and one of them would split a line that people read. `/` and `.` are allowed, as in
RocketMQ; code that writes a name into a URL quotes it.
"""

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Final

from controller_core import limits

NAME_BYTES_MAX: Final = limits.NAME_BYTES_MAX
"""Bytes of a cluster name or a broker name in UTF-8."""
ADDRESS_BYTES_MAX: Final = limits.ADDRESS_BYTES_MAX
"""Bytes of a `host:port`."""
CHECK_CODE_BYTES_MAX: Final = limits.CHECK_CODE_BYTES_MAX
"""Bytes of a register check code."""
ID_LIST_BYTES_MAX: Final = limits.ID_LIST_BYTES_MAX
"""Bytes of a list of broker ids: 200 of the longest ids."""
TOKEN_BYTES_MAX: Final = limits.TOKEN_BYTES_MAX
"""Bytes of the cluster's token."""
KIND_BYTES_MAX: Final = limits.KIND_BYTES_MAX
"""Bytes of the kind of a replica."""
GROUP_MEMBERS_MAX: Final = limits.GROUP_MEMBERS_MAX
"""Members of one group, and ids in one SyncStateSet."""

FIELD_BYTES_MAX: Final[Mapping[str, int]] = {
    "brokerName": NAME_BYTES_MAX,
    "clusterName": NAME_BYTES_MAX,
    "rmqhaCluster": NAME_BYTES_MAX,
    "rmqhaForwardedBy": NAME_BYTES_MAX,
    "rmqhaToken": TOKEN_BYTES_MAX,
    "brokerAddr": ADDRESS_BYTES_MAX,
    "brokerAddress": ADDRESS_BYTES_MAX,
    "registerCheckCode": CHECK_CODE_BYTES_MAX,
    "brokerControllerIdsToClean": ID_LIST_BYTES_MAX,
    "replicaKind": KIND_BYTES_MAX,
}
"""The bound of each header field that a controller reads as text, by its name on the wire."""

_SURELY_SHORT_CHARS: Final = min(FIELD_BYTES_MAX.values()) // 4
"""A text of so few characters is within every bound, whatever its characters are."""
_REFUSED_CATEGORIES: Final = frozenset(("Cc", "Cs", "Zl", "Zp"))
_REORDERING: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that change the direction of text.

What follows on the line is shown in another order than it was written.
"""


def text_problem(text: str, bytes_max: int) -> str | None:
    """Return why a text is refused.

    None if it has at most `bytes_max` bytes of UTF-8 and no control character.
    """
    if len(text) <= _SURELY_SHORT_CHARS and text.isprintable():
        return None
    size_bytes = len(text.encode("utf-8", "surrogatepass"))
    if size_bytes > bytes_max:
        return f"has {size_bytes} bytes, at most {bytes_max} are allowed"
    for position, char in enumerate(text):
        if is_control(char):
            return f"has the control character U+{ord(char):04X} at position {position} of {len(text)}"
    return None


def field_problems(ext: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """Yield each field of a request's header that is refused, with the reason."""
    for name, bytes_max in FIELD_BYTES_MAX.items():
        text = ext.get(name)
        if text is not None and (problem := text_problem(text, bytes_max)) is not None:
            yield name, problem


def is_control(char: str) -> bool:
    """Return whether a character is a control, a line or paragraph separator, or half of a surrogate pair."""
    return not char.isprintable() and unicodedata.category(char) in _REFUSED_CATEGORIES


def one_line(text: str) -> str:
    r"""Return a text for a terminal.

    Each character that controls or reorders it is written as `\n`, `\x1b` or `\u202e`.
    """
    if text.isprintable():
        return text
    return "".join(
        char.encode("unicode_escape", "surrogatepass").decode()
        if char in _REORDERING or is_control(char)
        else char
        for char in text
    )
