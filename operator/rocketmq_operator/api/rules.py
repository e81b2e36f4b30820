"""Rules that the type of a field cannot say, each written twice.

In CEL for the API server, in Python for the operator.

The API server refuses an object that breaks a rule when a person writes it. The operator holds the same rules
when it reads, because an object may be older than the rule. A rule that compares with the former object
(`oldSelf`) exists in CEL only: the Python check sees one version and cannot compare.

The text of a refusal names the field and the value and says what would be right. Texts are made with
`format`: the API server cannot bound what `string(...)` of a number costs, and refuses the definition.

Source: Kubernetes 1.29 "Validation rules" of CustomResourceDefinitions; `quantity` and `isQuantity` since
1.29.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

CelReason = Literal["FieldValueInvalid", "FieldValueForbidden"]
_PLAIN_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_SHOWN_CHARS_MAX: Final = 64
VALIDATIONS_KEY: Final = "x-kubernetes-validations"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of an object or a field.

    Attributes:
        name: one CamelCase word, the condition's reason when the operator meets a broken rule.
        expression: CEL, true when the rule holds.
        message: CEL, a text naming field and value.
        holds: the same in Python, on the model; None for rules about a change.
        problem: the text in Python.
        reason: what the API server's answer carries.
    """

    name: str
    expression: str
    message: str
    holds: Callable[[Any], bool] | None = None
    problem: Callable[[Any], str] | None = None
    reason: CelReason = "FieldValueInvalid"

    def as_schema(self) -> dict[str, str]:
        """Return the entry of x-kubernetes-validations.

        A rule with a computed text keeps a plain one beside it, which Kubernetes takes if the computed one
        fails.
        """
        return {
            "rule": self.expression,
            "message": f"{self.name}: see the description of the field",
            "messageExpression": self.message,
            "reason": self.reason,
        }


class RuleBrokenError(ValueError):
    """An object breaks a rule; `name` is the rule's."""

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        super().__init__(f"{name}: {problem}")


def check_rules(value: object, rules: Sequence[Rule]) -> None:
    """Raise `RuleBrokenError` for the first rule that `value` breaks."""
    for rule in rules:
        if rule.holds is not None and not rule.holds(value):
            problem = rule.problem(value) if rule.problem else rule.expression
            raise RuleBrokenError(rule.name, problem)


def schema_extra(*rules: Rule) -> dict[str, Any]:
    """Return what a field's schema carries for its rules."""
    return {VALIDATIONS_KEY: [rule.as_schema() for rule in rules]}


def unchangeable(field: str, why: str) -> Rule:
    """Return the rule that a field keeps its first value."""
    return Rule(
        name="Unchangeable",
        expression="self == oldSelf",
        message=f"'{field} cannot change from %s to %s: {why}'.format([oldSelf, self])",
        reason="FieldValueForbidden",
    )


def owned_keys(field: str, keys: Sequence[str]) -> Rule:
    """Return the rule that a model's `config` does not contain the keys that the operator writes itself.

    Args:
        field: how people know the map, for instance config.
        keys: the forbidden keys.
    """
    return refused_keys(field, keys, "OwnedKey", "is written by the operator: remove it")


def refused_keys(field: str, keys: Sequence[str], name: str, why: str) -> Rule:
    """Return the rule that a model's `config` does not contain some keys.

    Args:
        field: how people know the map, for instance config.
        keys: the forbidden keys.
        name: of the rule.
        why: follows field and key in a refusal; without a quote, as it becomes a text in CEL.
    """
    in_cel = "[" + ", ".join(f"'{key}'" for key in keys) + "]"
    return Rule(
        name=name,
        expression=f"!self.config.exists(key, key in {in_cel})",
        message=f"'{field}.' + self.config.filter(key, key in {in_cel})[0] + ' {why}'",
        holds=lambda spec: not set(spec.config) & set(keys),
        problem=lambda spec: f"{field}.{min(set(spec.config) & set(keys))} {why}",
        reason="FieldValueForbidden",
    )


def harmful_keys(field: str, reasons: Mapping[str, str]) -> Rule:
    """Return the rule that a model's `config` does not contain keys that break what the operator runs.

    Args:
        field: how people know the map, for instance config.
        reasons: why each key is refused, by key; it follows field and key in a refusal. Without a quote, as
            it becomes a text in CEL.
    """
    in_cel = "{" + ", ".join(f"'{key}': '{why}'" for key, why in reasons.items()) + "}"
    first = f"self.config.filter(key, key in {in_cel})[0]"
    return Rule(
        name="HarmfulKey",
        expression=f"!self.config.exists(key, key in {in_cel})",
        message=f"'{field}.' + {first} + ' ' + {in_cel}[{first}] + ': remove it'",
        holds=lambda spec: not set(spec.config) & set(reasons),
        problem=lambda spec: _describe_harmful(field, min(set(spec.config) & set(reasons)), reasons),
        reason="FieldValueForbidden",
    )


def _describe_harmful(field: str, key: str, reasons: Mapping[str, str]) -> str:
    return f"{field}.{key} {reasons[key]}: remove it"


def plain_properties(field: str) -> Rule:
    """Return the rule that each key of a model's `config` is letters and digits, as RocketMQ's are.

    Why: a key with white space, a colon or an escape may be another key to Java, and one that is refused. The
    API server cannot bound what a pattern over keys costs, so CEL refuses the empty key only, and the
    operator all others.
    """
    return Rule(
        name="NotAProperty",
        expression="!('' in self.config)",
        message=f"'{field} has an empty key among %d: remove it'.format([self.config.size()])",
        holds=lambda spec: not _misspelt(spec.config),
        problem=lambda spec: _describe_misspelt(field, spec.config),
    )


def _misspelt(config: dict[str, str]) -> list[str]:
    """Return the keys that RocketMQ cannot have."""
    return [key for key in config if _PLAIN_KEY.fullmatch(key) is None]


def _describe_misspelt(field: str, config: dict[str, str]) -> str:
    key = min(_misspelt(config))
    return (
        f"{field} has the key {key[:_SHOWN_CHARS_MAX]!r} with value {config[key][:_SHOWN_CHARS_MAX]!r}: "
        "a key is a letter, then letters and digits"
    )
