"""Lay a part of a pod template over another one: a strategic merge, as kubectl's patch does it.

    both are maps              merged key by key
    a list with a merge key    merged entry by entry: known entries keep their place, new ones follow
    any other list, any value  the patch wins
    null                       removes the key

An entry of `env` or `volumes` takes the place of the former one, because its fields exclude one another: a
variable has a value or a source, a volume has one source.

Directives: `$patch: delete` removes the map or the entry that has it. `$patch: replace` puts the rest of its
map in place of the former map. A list that begins with the entry `{$patch: replace}` replaces the former
list. Other keys that begin with `$` are refused.

Three things differ from kubectl: the result keeps the order of the former list; a deleted map is absent, not
empty; topology spreads merge by two fields, as in server-side apply.

Never: a decision about what the operator needs in a pod (`owned_fields`).

Source: Kubernetes 1.34 core/v1 types.go, `patchMergeKey`; kubernetes/community,
contributors/devel/sig-api-machinery/strategic-merge-patch.md.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rocketmq_operator.plan.common.objects import Json

MERGE_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ports": ("containerPort", "protocol"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""Lists of a pod whose entries have names, and the fields that name them."""
_DEFAULTS: Final = {"protocol": "TCP"}
_ONE_OF: Final = frozenset({"env", "volumes"})
"""Lists whose entries have fields that exclude one another."""
_DIRECTIVE: Final = "$patch"
_REPLACE: Final = "replace"
_DELETE: Final = "delete"


class PodRefusedError(Exception):
    """Settings of a pod that the operator does not apply; the text names field, value and reason."""


def merge_pod(base: Json, patch: Mapping[str, Any], path: str = "") -> Json:
    """Return `base` with `patch` laid over it; both stay as they are.

    Args:
        base: a map of a pod template.
        patch: what to change of it.
        path: where both are, for the text of a refusal.

    Raises:
        PodRefusedError: an entry of a list lacks its name, or a directive is unknown.
    """
    directive = _directive(patch, path)
    if directive == _REPLACE:
        return _content(patch, path)
    if directive:
        raise PodRefusedError(f"{path}.{_DIRECTIVE} is {directive!r}: a template cannot be deleted")
    result: Json = copy.deepcopy(base)
    for name, value in patch.items():
        below = f"{path}.{name}" if path else name
        _check_type(name, result.get(name), value, below)
        if value is None or (isinstance(value, Mapping) and _directive(value, below) == _DELETE):
            result.pop(name, None)
        elif isinstance(value, Mapping):
            former = result.get(name)
            result[name] = merge_pod(former if isinstance(former, dict) else {}, value, below)
        elif isinstance(value, list):
            former = result.get(name)
            result[name] = _merged_list(name, former if isinstance(former, list) else [], value, below)
        else:
            result[name] = value
    return result


def _check_type(name: str, former: object, value: object, path: str) -> None:
    """Raise `PodRefusedError` if a patch has another type than the value that it is laid over."""
    if value is None:
        return
    is_directive = isinstance(value, Mapping) and _DIRECTIVE in value
    wants_list = isinstance(former, list) or name in MERGE_KEYS
    if wants_list and not isinstance(value, list) and not is_directive:
        raise PodRefusedError(f"{path} is {value!r}: expected a list")
    if isinstance(former, Mapping) and not isinstance(value, Mapping):
        raise PodRefusedError(f"{path} is {value!r}: expected keys and values")


def _merged_list(name: str, base: list[Any], patch: list[Any], path: str) -> list[Any]:
    keys = MERGE_KEYS.get(name)
    if keys is None:
        return [_plain(one, path) for one in patch]
    if patch and isinstance(patch[0], Mapping) and dict(patch[0]) == {_DIRECTIVE: _REPLACE}:
        base, patch = [], patch[1:]
    found: dict[tuple[str, ...], Any] = {_identity(keys, one, path): one for one in base}
    for one in patch:
        identity = _identity(keys, one, path)
        where = f"{path}[{'/'.join(identity)}]"
        if _directive(one, where) == _DELETE:
            found.pop(identity, None)
            continue
        former = found.get(identity, {})
        found[identity] = merge_pod({} if name in _ONE_OF else former, one, where)
    return list(found.values())


def _identity(keys: Iterable[str], entry: object, path: str) -> tuple[str, ...]:
    """Return what tells an entry of a list from the others."""
    values = []
    for key in keys:
        value = (entry.get(key) if isinstance(entry, Mapping) else None) or _DEFAULTS.get(key)
        if not isinstance(value, str | int):
            raise PodRefusedError(f"{path} has an entry without {key}: the operator merges entries by it")
        values.append(str(value))
    return tuple(values)


def _directive(patch: Mapping[str, Any], path: str) -> str:
    """Return the directive in a map, empty without one."""
    for name in patch:
        if name.startswith("$") and name != _DIRECTIVE:
            raise PodRefusedError(f"{path}.{name} is unknown: expected {_DIRECTIVE}")
    found = patch.get(_DIRECTIVE, "")
    if found not in ("", _REPLACE, _DELETE):
        raise PodRefusedError(f"{path}.{_DIRECTIVE} is {found!r}: expected {_REPLACE} or {_DELETE}")
    return str(found)


def _content(patch: Mapping[str, Any], path: str) -> Json:
    """Return what a patch says where nothing was before."""
    return merge_pod({}, {name: value for name, value in patch.items() if name != _DIRECTIVE}, path)


def _plain(value: Any, path: str) -> Any:  # noqa: ANN401 - any JSON value
    return merge_pod({}, value, path) if isinstance(value, Mapping) else copy.deepcopy(value)
