"""Settings files: properties as Java reads them, and the plain form that `ha-sidecar` reads.

Java reads each key and value as the text that was given, whatever it holds. The plain form has no escapes.

Source: java.util.Properties.load of Java 17, which reads ISO 8859-1.
"""

from collections.abc import Mapping
from typing import Final

_KEY_ESCAPED: Final = frozenset(" =:#!\\")
_NAMED: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def plain_settings(values: Mapping[str, str]) -> str:
    """Return one `key = value` line for each entry, as `ha_sidecar.common.options.read_file` reads them.

    Raises:
        ValueError: the plain form cannot hold a value. The patterns of the CRDs admit no such value.
    """
    for key, value in values.items():
        if value != value.strip() or "\n" in value or "\r" in value:
            raise ValueError(
                f"{key}: invalid value {value!r} (expected one line without white space at its ends)"
            )
    return "".join(f"{key} = {value}\n" for key, value in values.items())


def properties(values: Mapping[str, str]) -> str:
    """Return one line for each entry, in their order; of equal keys Java would take the last."""
    return "".join(f"{_key(key)}={_value(value)}\n" for key, value in values.items())


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
