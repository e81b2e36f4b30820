"""Find the field of an object that somebody changes whenever the operator writes it, and who that is.

The problem. A mutating admission webhook may put another value into a field of ours. The next look finds a
difference and writes it again, for ever and in vain. Other differences are worth a write: a person's `kubectl
edit`, for instance.

Theory of operation. `metadata.managedFields` names the owner of each field. Who changes a value of ours by a
write of their own takes the field over; an admission webhook changes it within our write, and the field stays
ours.

    the live object                                              action
    has a digest other than the wanted object's                  write it
    has another value in a field that another manager owns       it is written
    has another value in a field that we own                     it is left so, and the status tells
    has more entries in a list whose entries have owners         left so: an apply removes no foreign entry

Source: Kubernetes "Server-Side Apply"; sigs.k8s.io/structured-merge-diff/v4, fieldpath/serialize.go.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller_core import bounded_json
from rocketmq_operator.api.names import FIELD_MANAGER, WANTED_HASH_ANNOTATION
from rocketmq_operator.plan.common.objects import Json, Live, covers, key_of

_VALUE_LENGTH_MAX: Final = 60
_WEBHOOK: Final = "a mutating admission webhook"
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field that is not as wanted; `path` from the object's root."""

    path: Path
    live: Any
    wanted: Any


def describe_rewritten_field(live: Live, wanted: Json) -> str:
    """Say which field differs although this very object was written and no other write changed it.

    The result is empty if an apply may help.
    """
    if _digest(live) is None or _digest(live) != _digest(wanted):
        return ""
    found = list(differences(live, wanted))
    if not all(_apply_is_vain(live, one) for one in found):
        return ""
    return describe_difference(live, found[0]) if found else ""


def first_difference(live: Live | None, wanted: Json) -> str:
    """Return which field of an object differs, and its manager.

    The result is empty if none does or the object is missing.
    """
    found = None if live is None else next(differences(live, wanted), None)
    return "" if live is None or found is None else describe_difference(live, found)


def describe_difference(live: Live, difference: FieldDifference) -> str:
    """Say which field of an object has which value, and who changes it."""
    key = key_of(live)
    path = _path_text(live, difference.path)
    found, wanted = _value_text(difference.live), _value_text(difference.wanted)
    return f"{key.kind} {key.name}: {path} is {found}, not {wanted}: {_writer(live, difference)} changes it"


def differences(live: Any, wanted: Any, path: Path = ()) -> Iterator[FieldDifference]:  # noqa: ANN401 - any JSON value
    """Yield each field of `wanted` that `live` has with another value or has not.

    Lists of other lengths are one field.
    """
    if covers(live, wanted):
        return
    if isinstance(live, Mapping) and isinstance(wanted, Mapping):
        for name, value in wanted.items():
            yield from differences(live.get(name), value, (*path, name))
    elif isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
        for number, (one, other) in enumerate(zip(live, wanted, strict=True)):
            yield from differences(one, other, (*path, number))
    else:
        yield FieldDifference(path, live, wanted)


def _apply_is_vain(live: Live, difference: FieldDifference) -> bool:
    node = _our_entry(live, difference.path)
    if node is None:
        return False
    both_lists = isinstance(difference.live, list) and isinstance(difference.wanted, list)
    if both_lists and any(key.startswith("k:") for key in node):
        return len(difference.live) > len(difference.wanted)
    return True


def _our_entry(live: Live, path: Path) -> Json | None:
    """Return what our applies own at and below a field; None where they do not own it."""
    owned = (
        _owned(live, path, entry)
        for entry in live["metadata"].get("managedFields") or []
        if entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply"
    )
    return next((node for node in owned if node is not None), None)


def _owned(live: Live, path: Path, entry: Live) -> Json | None:
    node: Any = entry.get("fieldsV1") or {}
    value: Any = live
    for depth, part in enumerate(path):
        below = node.get(f"f:{part}") if isinstance(part, str) else _entry(node, value, part)
        if below is None:
            # A list or map with a single owner lists no fields below.
            return {} if depth and not node else None
        node = below
        value = (
            value.get(part) if isinstance(value, Mapping) else value[part] if isinstance(part, int) else None
        )
    return dict(node)


def _entry(node: Mapping[str, Any], items: Any, number: int) -> Json | None:  # noqa: ANN401 - any JSON value
    """Return the node of a list's entry, which is named by the values of its key fields."""
    for name, below in node.items():
        if not name.startswith("k:"):
            continue
        keys = bounded_json.decode_object(name.removeprefix("k:"))
        if all(items[number].get(key) == value for key, value in keys.items()):
            return dict(below)
    return None


def _writer(live: Live, difference: FieldDifference) -> str:
    """Return who owns the field beside us, in words.

    A webhook owns nothing, as it writes within our own apply.
    """
    others = [
        str(entry.get("manager"))
        for entry in live["metadata"].get("managedFields") or []
        if entry.get("manager") not in {None, FIELD_MANAGER}
        and (node := _owned(live, difference.path, entry)) is not None
        and (node or not isinstance(difference.live, list))
    ]
    return " and ".join(dict.fromkeys(others)) or _WEBHOOK


def _digest(value: Live) -> str | None:
    found = (value["metadata"].get("annotations") or {}).get(WANTED_HASH_ANNOTATION)
    return None if found is None else str(found)


def _path_text(live: Live, path: Path) -> str:
    """Return a path as people write it, entries of lists by their name where they have one."""
    text = ""
    value: Any = live
    for part in path:
        if isinstance(part, int):
            value = value[part]
            name = value.get("name") if isinstance(value, Mapping) else None
            text += f"[{name or part}]"
        else:
            value = value.get(part, {}) if isinstance(value, Mapping) else {}
            text += f".{part}" if text else part
    return text


def _value_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if value is None:
        return "absent"
    if isinstance(value, list):
        named = [str(one.get("name", "?")) if isinstance(one, Mapping) else str(one) for one in value]
        return f"[{', '.join(named)}]"[:_VALUE_LENGTH_MAX]
    return json.dumps(value, sort_keys=True)[:_VALUE_LENGTH_MAX]
