"""A validator for the few words of JSON Schema that the test data use.

Any other word is an error of the schema.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "boolean": (bool,),
}
_BOUNDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "minimum": lambda found, bound: found >= bound,
    "maximum": lambda found, bound: found <= bound,
    "exclusiveMinimum": lambda found, bound: found > bound,
    "exclusiveMaximum": lambda found, bound: found < bound,
    "minItems": lambda found, bound: len(found) >= bound,
    "maxItems": lambda found, bound: len(found) <= bound,
    "minProperties": lambda found, bound: len(found) >= bound,
    "maxLength": lambda found, bound: len(found) <= bound,
    "pattern": lambda found, pattern: re.search(pattern, found) is not None,
    "const": lambda found, wanted: found == wanted,
    "enum": lambda found, wanted: found in wanted,
}
_WORDS: Final = {
    *_BOUNDS,
    "$comment",
    "$ref",
    "type",
    "required",
    "properties",
    "additionalProperties",
    "items",
}
_WORDS_OF_ROOT: Final = {*_WORDS, "oneOf", "definitions"}


def violations(
    found: Any,
    schema: Mapping[str, Any],
    root: Mapping[str, Any] | None = None,
    place: str = "",
) -> Iterator[str]:
    """Yield each error of a value with its place."""
    root = schema if root is None else root
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].removeprefix("#/definitions/")]
    assert set(schema) <= _WORDS_OF_ROOT, set(schema) - _WORDS_OF_ROOT
    kind = schema.get("type")
    is_bool = isinstance(found, bool)
    if kind is not None and (not isinstance(found, _TYPES[kind]) or (is_bool and kind != "boolean")):
        yield f"{place}: {found!r} is not of type {kind}"
        return
    for word in set(schema) & set(_BOUNDS):
        if not _BOUNDS[word](found, schema[word]):
            yield f"{place}: {found!r} breaks {word} {schema[word]!r}"
    yield from _parts(found, schema, root, place)
    if "oneOf" in schema:
        wrong = [list(violations(found, one, root, place)) for one in schema["oneOf"]]
        if [] not in wrong:
            yield from min(wrong, key=len)


def _parts(found: Any, schema: Mapping[str, Any], root: Mapping[str, Any], place: str) -> Iterator[str]:
    if isinstance(found, list):
        for number, item in enumerate(found):
            yield from violations(item, schema.get("items", {}), root, f"{place}[{number}]")
    if not isinstance(found, dict):
        return
    for name in schema.get("required", ()):
        if name not in found:
            yield f"{place}.{name} is missing"
    others = schema.get("additionalProperties", {})
    for name, value in found.items():
        part = schema.get("properties", {}).get(name, others)
        if part is False:
            yield f"{place}.{name} is unknown"
        else:
            yield from violations(value, part, root, f"{place}.{name}")
