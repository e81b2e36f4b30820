"""Server-side apply as the API server does it: its effect on an object, and `metadata.managedFields`."""

import json
from typing import Any, Final

Json = dict[str, Any]
_KEYS: Final = {
    "containers": ("name",),
    "env": ("name",),
    "hostAliases": ("ip",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""Fields that identify entries of a list; other lists are owned as a whole."""


def fields_of(value: Json) -> Json:
    """Return the `fieldsV1` of an applied object."""
    return {
        f"f:{name}": _node(name, part) for name, part in value.items() if name not in {"kind", "apiVersion"}
    }


def _node(name: str, value: Any) -> Json:
    if isinstance(value, dict):
        return {f"f:{key}": _node(key, part) for key, part in value.items()}
    if isinstance(value, list) and name in _KEYS and all(isinstance(one, dict) for one in value):
        return {
            "k:" + json.dumps({key: one[key] for key in _KEYS[name] if key in one}): {
                ".": {},
                **fields_of(one),
            }
            for one in value
        }
    return {}


def lay_over(live: Json, former: Json, body: Json) -> None:
    """Lay `body` over `live`, and take away the fields of `former` that `body` lacks."""
    for name in former.keys() - body.keys():
        live.pop(name, None)
    for name, value in body.items():
        if isinstance(value, dict) and isinstance(live.get(name), dict):
            lay_over(live[name], former.get(name, {}) if isinstance(former.get(name), dict) else {}, value)
        else:
            live[name] = value


def without_empty_lists(value: Any) -> Any:
    """Return a copy as the API server keeps it: a field applied as an empty list is absent when read."""
    if isinstance(value, dict):
        return {key: without_empty_lists(part) for key, part in value.items() if part != []}
    if isinstance(value, list):
        return [without_empty_lists(part) for part in value]
    return value
