"""Properties files as Java reads them: what is written as a key or a value is read as that text, whatever it holds.

Source: java.util.Properties.load of Java 17, which reads ISO 8859-1.
"""

from collections.abc import Mapping
from typing import Final

_KEY_ESCAPED: Final = frozenset(" =:#!\\")
_NAMED: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def properties(values: Mapping[str, str], separator: str = "=") -> str:
    """Return one line for each entry, in their order; of equal keys Java would take the last."""
    return "".join(f"{_key(key)}{separator}{_value(value)}\n" for key, value in values.items())


def _key(text: str) -> str:
    return "".join("\\" + char if char in _KEY_ESCAPED else _char(char) for char in text)


def _value(text: str) -> str:
    rest = text.lstrip(" ")
    # Java drops white space before a value, and keeps it behind one.
    return "\\ " * (len(text) - len(rest)) + "".join("\\\\" if char == "\\" else _char(char) for char in rest)


def _char(char: str) -> str:
    if named := _NAMED.get(char):
        return named
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
