"""What all models of the API have in common: frozen, camelCase outside, documented field by field.

A spec refuses fields it does not know, so that a misspelt one is never silently without effect. A status ignores them,
because a newer operator may have written it.
"""

from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

from rocketmq_operator.api.rules import Rule, check_rules, schema_extra


class SpecModel(BaseModel):
    """A part of what a person writes; `RULES` are checked here and by the API server."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )

    def model_post_init(self, _context: object, /) -> None:
        """Check the rules of this model; pydantic turns a ValueError into its own error."""
        check_rules(self, rules_of(type(self)))


class StatusModel(BaseModel):
    """A part of what the operator writes."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


def kept_by(key: str) -> dict[str, JsonValue]:
    """Return what makes the API server keep a list by a key of its items: no two have the same."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


KEPT_WHOLE: Final[dict[str, JsonValue]] = {"x-kubernetes-list-type": "atomic"}
"""What makes the API server keep a list as one value: its items have no key."""


def rules_of(model: type[BaseModel]) -> tuple[Rule, ...]:
    """Return the rules a model carries in its class attribute `RULES`."""
    rules: tuple[Rule, ...] = getattr(model, "RULES", ())
    return rules


__all__ = ["KEPT_WHOLE", "Rule", "SpecModel", "StatusModel", "kept_by", "rules_of", "schema_extra"]
