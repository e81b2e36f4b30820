"""The settings that may change while the node runs.

Requests 1009 and 1010, and the file that keeps the changes.

Java lets 1009 set every property of its config objects, also those that are only read at start, and answers
success. Here a change either works at once or is refused by name: `live` settings change, keys without effect
are remembered for the listing, keys that make up the node's identity (peers, ports, store) are refused,
unknown keys are ignored as in Java, and a value that does not parse leaves the old one in force (as Java's
setters do), with a log line.

Like in Java a change is local to the node that gets the request; `mqadmin updateControllerConfig -a` lists
every node.

A change is kept in a file of its own, which comes after the start file, so that a restart does not undo it.
It is forgotten when somebody changes the setting back, or starts the node with the same value: the start file
decides again from then on.

Source: RocketMQ 5.4.0 ControllerRequestProcessor.handleUpdateControllerConfig, handleGetControllerConfig.
"""

import contextlib
import dataclasses
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller_core.channel.log_rate import LogRate
from controller_core.remoting.errors import shown
from controller_core.server.logs import bind
from controller_core.server.settings import config, keys, properties
from controller_core.server.settings.config import InvalidSettingError, KeyInfo, Settings

_log = logging.getLogger(__name__)
_log_refused = LogRate(_log, logging.WARNING)

BLACK_LIST_REMARK = "Can not update config in black list."
_ALWAYS_BLACK_LISTED = frozenset({"configBlackList", "configStorePath", "rocketmqHome"})
# Why: the setter that Java derives from `isProcessReadEvent` is called after the bare word, so scripts use
# either.
_ALIASES = {"processReadEvent": "isProcessReadEvent"}


class UpdateRefusedError(Exception):
    """The change must not be made at run time; the text is the remark for the asker."""


class LiveConfig:
    """The settings in force now, and the listing that mqadmin prints."""

    def __init__(self, settings: Settings, given: Mapping[str, str], start_file: Path | None = None) -> None:
        """Take the checked settings, the texts that they come from, and the file of these texts, if any."""
        self.settings = settings
        self._given = dict(given)
        self._start_settings = settings
        self._start_given = dict(given)
        self._start_file = None if start_file is None else start_file.resolve()
        self._infos = config.key_infos()
        self._changed: dict[str, str] = {}
        self._changed_back: set[str] = set()

    def restore(self) -> None:
        """Take over what an earlier run kept in the live file; only keys that may change at run time."""
        path = self.settings.live_config_path
        try:
            kept = properties.parse(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            _log.warning("kept settings are not readable", extra=bind(path=str(path), error=str(error)))
            return
        accepted = self._accept({key: value for key, value in kept.items() if self._may_change(key)})
        self._take(accepted)
        for key in self.changes():
            if key in self._start_given:
                value = accepted[key]
                _log.warning("a kept setting overrides the start file", extra=bind(key=key, value=value))
        if self._changed_back:
            try:
                self.save()
            except OSError as error:
                _log.warning("kept settings cannot be written", extra=bind(path=str(path), error=str(error)))

    def update(self, text: str) -> dict[str, str]:
        """Change settings as request 1009 asks and return what changed; call `save` to keep it.

        Raises:
            UpdateRefusedError: one of the keys is black-listed or is only read at start; nothing changed.
        """
        asked = {_ALIASES.get(key, key): value for key, value in properties.parse(text).items()}
        black_list = _ALWAYS_BLACK_LISTED | set(self.settings.config_black_list.split(";"))
        if black_list & asked.keys():
            raise UpdateRefusedError(BLACK_LIST_REMARK)
        fixed = sorted(key for key in asked if self._is_known(key) and not self._may_change(key))
        if fixed:
            raise UpdateRefusedError(f"Can not update config at run time: {', '.join(fixed)}")
        accepted = self._accept({key: value for key, value in asked.items() if self._may_change(key)})
        self._take(accepted)
        return accepted

    def save(self) -> None:
        """Write the changed keys into the live file, keeping other keys that are in it. Blocking I/O."""
        path = self.settings.live_config_path
        kept: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError):
            kept = properties.parse(path.read_text(encoding="utf-8"))
        for key in self._changed_back & kept.keys():
            if path.resolve() == self._start_file:
                kept[key] = self._given[key]
            else:
                del kept[key]
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            file.write(properties.write(kept | self._changed))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def listing(self) -> str:
        """Return all keys and values as request 1010 answers them; secrets are masked."""
        values = keys.INERT_DEFAULTS | self._given
        for field in dataclasses.fields(Settings):
            info: KeyInfo = field.metadata["info"]
            text = _text(getattr(self.settings, field.name))
            values[info.key] = "********" if info.secret and text else text
        values["listenPort"] = str(self.settings.self_peer.port)
        return properties.write(values)

    def changes(self) -> dict[str, str]:
        """Return the live settings that request 1009 made different from the start, in any run, by key."""
        return {
            key: _text(self._field(self.settings, key)) for key in sorted(self._changed) if key in self._infos
        }

    def _is_known(self, key: str) -> bool:
        return key in self._infos or key in keys.INERT_DEFAULTS or key in keys.DERIVED_KEYS

    def _may_change(self, key: str) -> bool:
        info = self._infos.get(key)
        return info.live if info else key in keys.INERT_DEFAULTS and key not in _ALWAYS_BLACK_LISTED

    def _accept(self, asked: Mapping[str, str]) -> dict[str, str]:
        accepted: dict[str, str] = {}
        for key, value in asked.items():
            try:
                if info := self._infos.get(key):
                    keys.parse_value(info, value)
            except InvalidSettingError as error:
                _log_refused("a setting keeps its value: %s", shown(str(error)))
                continue
            accepted[key] = value.strip()
        return accepted

    def _take(self, accepted: Mapping[str, str]) -> None:
        names = {field.metadata["info"].key: field.name for field in dataclasses.fields(Settings)}
        values: dict[str, Any] = {
            names[key]: keys.parse_value(self._infos[key], accepted[key]) for key in accepted if key in names
        }
        self.settings = dataclasses.replace(self.settings, **values)
        self._given |= accepted
        for key, value in accepted.items():
            if self._is_of_start(key, value):
                self._changed.pop(key, None)
                self._changed_back.add(key)
            else:
                self._changed[key] = value
                self._changed_back.discard(key)

    def _is_of_start(self, key: str, value: str) -> bool:
        if (info := self._infos.get(key)) is None:
            return self._start_given.get(key) == value
        return bool(self._field(self._start_settings, key) == keys.parse_value(info, value))

    @staticmethod
    def _field(settings: Settings, key: str) -> object:
        fields = dataclasses.fields(Settings)
        return getattr(settings, next(field.name for field in fields if field.metadata["info"].key == key))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_file(path: Path) -> dict[str, str]:
    """Return the properties of a start file.

    Raises:
        InvalidSettingError: the file cannot be read or is not a properties text.
    """
    try:
        return properties.parse_file(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidSettingError("-c", str(path), str(error)) from error
