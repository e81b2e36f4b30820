"""Judges one transcript against another: equal, improved on purpose, or different.

Steps are paired by label and occurrence. A step that the reference does not have cannot be judged
and is left out, so a reference may hold only the beginning of the conversation; a step that only
the reference has is a failure.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controller_core.remoting import lenient_json
from controller_core.remoting.errors import RemotingProtocolError
from testkit.conformance.improvements import EVERY_OCCURRENCE, Improvement
from testkit.conformance.transcript import Answer, Line

_MEMBERS: Final = ("brokerAddrs", "brokerName", "cluster")


@dataclass(frozen=True, slots=True)
class StepVerdict:
    """What became of one step of the reference.

    Attributes:
        name: label, with `#n` for the second and later of the same label.
        problems: one text a difference that is not allowed; empty if passed.
        improvement: the improvement that allowed the differences; None without differences.
    """

    name: str
    problems: tuple[str, ...] = ()
    improvement: Improvement | None = None


def canonical(line: Line) -> dict[str, str]:
    """Give a line's fields as texts that are equal exactly if the answers mean the same to a Java peer."""
    if not isinstance(line, Answer):
        return {"settings": "\n".join(line.entries)}
    return {
        "code": str(line.code),
        "ext": _sorted_json(line.ext),
        "remark": "None" if line.remark is None else line.remark,
        "body": _canonical_body(line.body),
    }


def compare(
    ours: Sequence[Line], reference: Sequence[Line], table: Iterable[Improvement]
) -> list[StepVerdict]:
    """Judge every step of `reference`, in its order, then every improvement that no step made use of."""
    answered = dict(_numbered(ours))
    improvements = list(table)
    used: set[int] = set()
    verdicts: list[StepVerdict] = []
    for key, expected in _numbered(reference):
        name = key[0] if key[1] == 1 else f"{key[0]} #{key[1]}"
        actual = answered.get(key)
        if actual is None:
            verdicts.append(StepVerdict(name, ("no such step was answered",)))
            continue
        index = _find(improvements, key)
        verdicts.append(_judge(name, actual, expected, None if index is None else improvements[index]))
        if index is not None:
            used.add(index)
    labels = {line.label for line in reference}
    verdicts += [
        StepVerdict(entry.label, (f"the improvement '{entry.what}' belongs to no step",))
        for index, entry in enumerate(improvements)
        if index not in used and entry.label in labels
    ]
    return verdicts


def _numbered(lines: Iterable[Line]) -> Iterable[tuple[tuple[str, int], Line]]:
    seen: Counter[str] = Counter()
    for line in lines:
        seen[line.label] += 1
        yield (line.label, seen[line.label]), line


def _find(improvements: Sequence[Improvement], key: tuple[str, int]) -> int | None:
    for index, entry in enumerate(improvements):
        if entry.label == key[0] and entry.occurrence in (EVERY_OCCURRENCE, key[1]):
            return index
    return None


def _judge(name: str, actual: Line, expected: Line, improvement: Improvement | None) -> StepVerdict:
    ours, theirs = canonical(actual), canonical(expected)
    problems: list[str] = []
    improved = False
    for field in sorted(ours.keys() | theirs.keys()):
        mine, reference = ours.get(field, "absent"), theirs.get(field, "absent")
        if mine == reference:
            continue
        allowed = improvement.ours.get(field) if improvement is not None else None
        if allowed is not None and _fits(mine, allowed):
            improved = True
            continue
        wanted = reference if allowed is None else allowed if isinstance(allowed, str) else allowed.pattern
        problems.append(f"{field}: expected {wanted!r}, got {mine!r}")
    return StepVerdict(name, tuple(problems), improvement if improved else None)


def _fits(text: str, allowed: str | re.Pattern[str]) -> bool:
    return text == allowed if isinstance(allowed, str) else allowed.fullmatch(text) is not None


def _canonical_body(body: str) -> str:
    """Write a body's JSON with sorted keys, without the repeated members of an elect body.

    Other texts stay as they are.
    """
    try:
        value = lenient_json.decode(body.encode())
    except RemotingProtocolError:
        return body
    return _sorted_json(_without_repeated_members(value))


def _without_repeated_members(value: Any) -> Any:
    group = value.get("brokerMemberGroup") if isinstance(value, dict) else None
    if not isinstance(group, dict) or any(
        value.get(key, group.get(key)) != group.get(key) for key in _MEMBERS
    ):
        return value
    return {key: member for key, member in value.items() if key not in _MEMBERS}


def _sorted_json(value: Any) -> str:
    return "None" if value is None else json.dumps(value, sort_keys=True, separators=(",", ":"))
