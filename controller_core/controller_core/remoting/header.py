"""How a typed header and the flat map of texts on the wire become one another.

A header is declared once, as a class with typed fields; the wire name of `broker_name` is `brokerName`.
`from_ext` and `to_ext` follow from the declaration:

| declared | on the wire | absent |
|---|---|---|
| `str` | the text | `HeaderError` |
| `JavaInt`, `JavaLong` | decimal, within Java's int or long | `HeaderError` |
| `bool` | `true` in any case is true, all else false, as Boolean.valueOf says | `HeaderError` |
| any of them with `| None = None`, or with a default | the same | the default |

Why absence matters: Java enforces nothing (a missing field is logged and stays null), so a field is required
here if a handler needs it; all others are optional. Fields that a header does not declare are ignored; code
that needs one reads `command.ext`.

Not: dataclasses. One header is parsed for every request, and msgspec does it in one pass of C code.

Source: RemotingCommand.java decodeCommandCustomHeader and makeCustomHeaderToNet (5.1.1 to 5.5.0).
"""

from functools import cache
from typing import Annotated, Any, Final, Self, get_args, get_type_hints

import msgspec

from controller_core.remoting.errors import HeaderError

JavaInt = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""Java's int: 32 bits, signed."""
JAVA_LONG_MAX: Final = 2**63 - 1
JavaLong = Annotated[int, msgspec.Meta(ge=-(2**63), le=JAVA_LONG_MAX)]
"""Java's long: 64 bits, signed."""

_BOOLS: Final = {True: "true", False: "false"}
_EMPTY: Final[dict[str, str]] = {}


class Header(msgspec.Struct, frozen=True, rename="camel"):
    """Base of every header; immutable, compared by value."""

    @classmethod
    def from_ext(cls, ext: dict[str, str] | None) -> Self:
        """Read this header from a command's `ext`.

        Raises:
            HeaderError: a required field is missing or a value does not parse; names field and value.
        """
        fields: dict[str, Any] = ext if ext is not None else _EMPTY
        for name in _bool_names(cls):
            if name in fields:
                fields = {**fields, name: fields[name].lower() == "true"}
        try:
            return msgspec.convert(fields, cls, strict=False)
        except msgspec.ValidationError as error:
            raise _explain(cls.__name__, ext or _EMPTY, str(error)) from error

    def to_ext(self) -> dict[str, str]:
        """Write this header as a command's `ext`; fields of value None are left out."""
        ext: dict[str, str] = {}
        for attribute, name in _wire_names(type(self)):
            value = getattr(self, attribute)
            if value is None:
                continue
            ext[name] = (
                value if type(value) is str else _BOOLS[value] if type(value) is bool else str(int(value))
            )
        return ext


@cache
def _wire_names(header: type[Header]) -> tuple[tuple[str, str], ...]:
    """Pair each attribute with its name on the wire."""
    return tuple(zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True))


@cache
def _bool_names(header: type[Header]) -> tuple[str, ...]:
    """List the wire names of the boolean fields, whose texts msgspec reads in another way than Java."""
    hints = get_type_hints(header)
    return tuple(
        name
        for attribute, name in _wire_names(header)
        if bool in (hints[attribute], *get_args(hints[attribute]))
    )


def _explain(header: str, ext: dict[str, str], problem: str) -> HeaderError:
    """Name the field that msgspec's message is about, with the value as it was sent."""
    if "$." in problem:
        field = problem.rpartition("$.")[2].rstrip("`")
        return HeaderError(header, field, ext.get(field), problem.partition(" - at ")[0])
    return HeaderError(header, problem.rpartition("field ")[2].strip("`"), None, "missing")
