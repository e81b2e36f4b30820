"""Gives a running broker the settings of its file that it takes while it runs.

The file is the one that the broker's start script reads, and on Kubernetes a key of a ConfigMap: the kubelet
changes it within about a minute after the ConfigMap. A broker that starts reads the whole file itself, so
that nothing has to be remembered for it. `comparison` decides which settings differ.

The watch compares after each change of the file, and every `CHECK_S`: a value that a person gave the broker
by mqadmin is replaced if the file has the setting.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from controller_core.broker_settings import LIVE_SETTINGS
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode
from ha_sidecar.common.questions import change_settings
from ha_sidecar.decisions.broker_facts import BrokerFacts, settings
from ha_sidecar.live_settings.comparison import difference

LOOK_S: Final = 2.0
"""Between two looks at the file."""
CHECK_S: Final = 30.0
"""Between two comparisons with the broker while the file stays as it is."""

_log = logging.getLogger(__name__)


class SettingsWatch:
    """Watches one broker's file of settings; event loop's thread only."""

    def __init__(self, file: Path, asker: Asker, broker: Callable[[], BrokerFacts | None]) -> None:
        """Describe the watch.

        Args:
            file: the broker's settings.
            asker: asks the broker.
            broker: returns the last answer of the broker, None while it is silent.
        """
        self._file: Final = file
        self._asker: Final = asker
        self._broker: Final = broker
        self._started: Mapping[str, str] | None = None
        self._known: set[str] = set()
        self._compared = ""
        self._next_s = 0.0
        self._refused: dict[str, str] = {}
        self._waiting: tuple[str, ...] = ()

    @property
    def told(self) -> dict[str, Any] | None:
        """Return what the broker lacks of which file; None while that is unknown."""
        if self._started is None or not self._compared:
            return None
        return {
            "file": hashlib.sha256(self._compared.encode()).hexdigest()[:16],
            "waiting": list(self._waiting),
            "refused": dict(sorted(self._refused.items())),
        }

    async def run(self) -> None:
        """Compare and change until cancelled."""
        while True:
            try:
                await self.look()
            except (AskError, OSError, UnicodeDecodeError) as error:
                _log.debug("settings: %s", error)
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Compare once, if there may be something new.

        Raises:
            AskError: the broker does not answer, or refuses.
            OSError: the file cannot be read.
            UnicodeDecodeError: the file is not a text.
        """
        try:
            text = self._file.read_text("utf-8")
        except FileNotFoundError:
            text = ""
        if not text or self._broker() is None:
            # A broker that starts again reads the file of that time.
            self._started, self._compared, self._known = None, "", set()
            return
        wanted = settings(text)
        if self._started is None:
            self._started, self._refused = wanted, {}
        self._known |= wanted.keys() & LIVE_SETTINGS.keys()
        if text != self._compared or time.monotonic() >= self._next_s:
            await self._compare(self._started, wanted)
            self._compared, self._next_s = text, time.monotonic() + CHECK_S

    async def _compare(self, started: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        found = difference(started, wanted, await self._running(), self._known)
        updates = {name: value for name, value in found.updates.items() if self._refused.get(name) != value}
        if updates:
            await change_settings(self._asker, updates)
            found = difference(started, wanted, await self._running(), self._known)
            for name, value in updates.items():
                if name in found.updates:
                    _log.warning("the broker does not take %s=%s", name, value)
                else:
                    _log.info("the broker runs with %s=%s", name, value)
        self._refused, self._waiting = dict(found.updates), found.waiting

    async def _running(self) -> dict[str, str]:
        answer = await self._asker.ask(RequestCode.GET_BROKER_CONFIG)
        return settings(answer.body.decode(errors="replace"))
