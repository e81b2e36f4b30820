"""The format of the texts: parse into cases, write back.

    # comment
    command positional key=value key=(a,b)
    optional input lines
    ----
    expected output, up to a blank line

The texts need nothing else of the format; the parser refuses unknown syntax.
"""

import re
from dataclasses import dataclass

SEPARATOR = "----"
_TOKEN = re.compile(r"(?P<key>[^\s=]+)(?:=(?:\((?P<list>[^)]*)\)|(?P<value>\S*)))?")


class FormatError(ValueError):
    """The text is not in the format."""


@dataclass(frozen=True, slots=True)
class Argument:
    """`key`, `key=value` or `key=(a,b)`."""

    key: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """One command with what precedes it in the file (comments), its input and its expected output."""

    line_number: int
    prefix: tuple[str, ...]
    directive: str
    command: str
    arguments: tuple[Argument, ...]
    input: tuple[str, ...]
    expected: tuple[str, ...]

    def positional(self) -> list[str]:
        """Return the arguments without values."""
        return [argument.key for argument in self.arguments if not argument.values]

    def options(self) -> list[tuple[str, tuple[str, ...]]]:
        """Return the arguments with values."""
        return [(argument.key, argument.values) for argument in self.arguments if argument.values]


def parse(text: str) -> tuple[list[Case], tuple[str, ...]]:
    """Return the cases of a text, and the lines after the last of them.

    Raises:
        FormatError: a command without `----`, or the doubled `----` form.
    """
    lines = text.splitlines()
    cases: list[Case] = []
    prefix: list[str] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        if not line.strip() or line.startswith("#"):
            prefix.append(line)
            position += 1
            continue
        case, position = _parse_case(lines, position, tuple(prefix))
        cases.append(case)
        prefix = []
    return cases, tuple(prefix)


def is_true(values: tuple[str, ...] | None) -> bool:
    """Return whether an option is there and says yes."""
    return values is not None and values[0].lower() in ("1", "t", "true")


def render(cases: list[tuple[Case, tuple[str, ...]]], suffix: tuple[str, ...]) -> str:
    """Return the text in which each case expects the given output."""
    lines: list[str] = []
    for case, output in cases:
        lines += [*case.prefix, case.directive, *case.input, SEPARATOR, *output]
    return "\n".join([*lines, *suffix]) + "\n"


def _parse_case(lines: list[str], start: int, prefix: tuple[str, ...]) -> tuple[Case, int]:
    position = start + 1
    while position < len(lines) and lines[position] != SEPARATOR:
        if not lines[position].strip():
            raise FormatError(f"line {start + 1}: no {SEPARATOR} before a blank line")
        position += 1
    if position == len(lines):
        raise FormatError(f"line {start + 1}: no {SEPARATOR}")
    given = tuple(lines[start + 1 : position])
    position += 1
    if position < len(lines) and lines[position] == SEPARATOR:
        raise FormatError(f"line {position + 1}: doubled {SEPARATOR} is not supported")
    end = position
    while end < len(lines) and lines[end].strip():
        end += 1
    directive = lines[start]
    command, _, rest = directive.strip().partition(" ")
    case = Case(start + 1, prefix, directive, command, _arguments(rest), given, tuple(lines[position:end]))
    return case, end


def _arguments(text: str) -> tuple[Argument, ...]:
    found: list[Argument] = []
    for match in _TOKEN.finditer(text):
        if match["list"] is not None:
            values = tuple(value.strip() for value in match["list"].replace(",", " ").split())
        else:
            values = () if match["value"] is None else (match["value"],)
        found.append(Argument(match["key"], values))
    return tuple(found)
