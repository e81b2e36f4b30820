"""Argo CD's health of an object, by the Lua scripts that the chart ships, run as Argo CD runs them.

Argo CD's interpreter speaks Lua 5.1. It gives a script the object as the global `obj`, without files, a shell
or modules.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from lupa import lua51  # type: ignore[import-untyped] # lupa ships no types

from testkit.tree.files import ROOT

CONFIG_MAP: Final = ROOT / "charts" / "rocketmq-ha" / "gitops" / "argocd-cm.yaml"
KEY_PREFIX: Final = "resource.customizations.health.rocketmq-ha.dev_"


def health_scripts(path: Path = CONFIG_MAP) -> dict[str, str]:
    """Return the script for each kind."""
    data: dict[str, str] = yaml.safe_load(path.read_text())["data"]
    return {
        key.removeprefix(KEY_PREFIX): script for key, script in data.items() if key.startswith(KEY_PREFIX)
    }


def computed_health(script: str, value: Mapping[str, Any]) -> tuple[str, str]:
    """Return the health and message that a script computes for an object."""
    lua = _interpreter()
    lua.globals()["obj"] = _table(lua, value)
    answer = lua.execute(script)
    return str(answer["status"]), str(answer["message"])


@cache
def _interpreter() -> Any:
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    for name in ("os", "io", "package", "require", "dofile", "loadfile", "python"):
        lua.globals()[name] = None
    return lua


def _table(lua: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return lua.table_from({key: _table(lua, part) for key, part in value.items()})
    if isinstance(value, list | tuple):
        return lua.table_from([_table(lua, part) for part in value])
    return value
