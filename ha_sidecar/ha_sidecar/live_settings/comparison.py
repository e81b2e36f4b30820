"""Which settings of a broker differ from its file, and which of these it takes while it runs.

Source: Configuration.update and MixAll.properties2Object of RocketMQ 5.5.0: a value of the wrong type changes
nothing, and the broker answers with success all the same.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from controller_core.broker_settings import LIVE_SETTINGS


@dataclass(frozen=True, slots=True)
class SettingsDifference:
    """What a running broker lacks of its file.

    Attributes:
        updates: value by name of the settings that the broker takes while it runs.
        waiting: names of the settings that it reads only when it starts.
    """

    updates: Mapping[str, str]
    waiting: tuple[str, ...]


def difference(
    started: Mapping[str, str], wanted: Mapping[str, str], running: Mapping[str, str], known: Collection[str]
) -> SettingsDifference:
    """Return what a broker lacks.

    A setting that left the file goes back to RocketMQ's default. One that never was in the file stays as it
    is: a person may have set it by mqadmin.

    Args:
        started: the file when the broker started.
        wanted: the file now.
        running: the broker's answer to request 26.
        known: names that the file has had since the broker started.
    """
    updates = {}
    for name, default in LIVE_SETTINGS.items():
        value = wanted.get(name, default)
        # Why only what it runs with: an older version may lack the setting.
        if name in {*known, *wanted} and name in running and not _is_equal(value, running[name]):
            updates[name] = value
    waiting = (
        name
        for name in {**started, **wanted}
        if name not in LIVE_SETTINGS and started.get(name) != wanted.get(name)
    )
    return SettingsDifference(updates, tuple(sorted(waiting)))


def _is_equal(one: str, other: str) -> bool:
    """Compare as Java reads them: numbers by value, true and false in any case."""
    try:
        return int(one) == int(other)
    except ValueError:
        return one.strip().lower() == other.strip().lower()
