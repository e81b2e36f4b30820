"""`metadata.managedFields` as the API server writes it: which fields of an object a manager has applied."""

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
