"""Prometheus selectors: text to matchers and back, because remote read takes matchers and queries take text.

Shape: `name{label="value",other=~"pattern"}`; a name is a matcher of `__name__`. Strings are quoted with
double quotes. Never: anything else of PromQL (ranges, offsets, functions): a source gives raw samples, and
arithmetic is ours.

Source: Prometheus documentation, "Querying basics", instant vector selectors; prompb/types.proto,
LabelMatcher.
"""

import json
import re
from typing import Final, NamedTuple

from controller_core import bounded_json

# The numbers of prompb's LabelMatcher.Type.
TYPES: Final = {"=": 0, "!=": 1, "=~": 2, "!~": 3}
NAME_LABEL: Final = "__name__"
_NAME = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*")
_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*("(?:[^"\\\n]|\\.)*")\s*(,|(?=\}))\s*')


class SelectorError(ValueError):
    """The text is not a selector; the message shows it."""


class Matcher(NamedTuple):
    """One condition on one label."""

    name: str
    op: str
    value: str


def parse(text: str) -> tuple[Matcher, ...]:
    """Return the matchers of a selector.

    Raises:
        SelectorError: it is invalid, or it matches everything.
    """
    head = _NAME.match(text)
    name, at = (head.group(1), head.end()) if head else (None, 0)
    found = [] if name is None else [Matcher(NAME_LABEL, "=", name)]
    if at < len(text):
        if text[at] != "{":
            raise SelectorError(f"invalid selector {text!r}: unexpected {text[at]!r}")
        at += 1
        while part := _MATCHER.match(text, at):
            found.append(Matcher(part[1], part[2], _unquoted(part[3], text)))
            at = part.end()
        if text[at:].strip() != "}":
            raise SelectorError(f"invalid selector {text!r}: missing '}}' after its labels")
    if not any(one.op in {"=", "=~"} and one.value for one in found):
        raise SelectorError(f"{text!r} selects everything: name a metric or a label")
    return tuple(found)


def _unquoted(quoted: str, text: str) -> str:
    try:
        return str(bounded_json.decode(quoted))
    except ValueError:
        raise SelectorError(f"invalid selector {text!r}: {quoted} is not a string") from None


def text_of(matchers: tuple[Matcher, ...]) -> str:
    """Return matchers as a selector that every Prometheus-compatible store understands."""
    return (
        "{"
        + ",".join(f"{one.name}{one.op}{json.dumps(one.value, ensure_ascii=False)}" for one in matchers)
        + "}"
    )
