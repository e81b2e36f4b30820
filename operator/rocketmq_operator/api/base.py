"""What all models of the API have in common: frozen, camelCase outside, documented field by field.

A spec refuses fields it does not know, so that a misspelt one is never silently without effect. A status
ignores them, because a newer operator may have written it.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator
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

    @model_validator(mode="before")
    @classmethod
    def complete_objects(cls, value: object) -> object:
        """Fill the keys that an object lacks from its field's default, as the API server does."""
        if not isinstance(value, Mapping):
            return value
        filled = dict(value)
        for name, field in cls.model_fields.items():
            key = field.alias or name
            if isinstance(field.default, SpecModel) and isinstance(given := value.get(key), Mapping):
                filled[key] = field.default.model_dump(by_alias=True, exclude_unset=True) | dict(given)
        return filled

    def model_post_init(self, _context: object, /) -> None:
        """Check the rules of this model; pydantic turns a ValueError into its own error."""
        check_rules(self, rules_of(type(self)))


def sets_only(spec: SpecModel, *names: str) -> bool:
    """Say whether all fields of a spec but these have their defaults."""
    fields = type(spec).model_fields
    return all(getattr(spec, name) == field.default for name, field in fields.items() if name not in names)


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
"""The schema that makes the API server treat a list as one value, because its items lack a key."""


INT_OR_STRING_KEY: Final = "x-kubernetes-int-or-string"
INT_OR_STRING: Final[dict[str, JsonValue]] = {INT_OR_STRING_KEY: True, "minimum": 0}
"""What makes the API server take a whole number beside a text."""


PRESERVED_KEY: Final = "x-kubernetes-preserve-unknown-fields"
PRESERVED: Final[dict[str, JsonValue]] = {PRESERVED_KEY: True}
"""What makes the API server keep every field below, because the schema names none."""


def rules_of(model: type[BaseModel]) -> tuple[Rule, ...]:
    """Return the rules a model carries in its class attribute `RULES`."""
    rules: tuple[Rule, ...] = getattr(model, "RULES", ())
    return rules


__all__ = [
    "INT_OR_STRING",
    "INT_OR_STRING_KEY",
    "KEPT_WHOLE",
    "PRESERVED",
    "PRESERVED_KEY",
    "Rule",
    "SpecModel",
    "StatusModel",
    "kept_by",
    "rules_of",
    "schema_extra",
    "sets_only",
]
