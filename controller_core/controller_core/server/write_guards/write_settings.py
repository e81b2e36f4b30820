"""The two settings of a broker that stop its writes: how they are read and set.

Another broker at the same address is noticed. Never here: why they are set (`write_guard`).

Source: AdminBrokerProcessor.updateBrokerConfig and getBrokerConfig, SendMessageProcessor.preSend,
CommitLog.asyncPutMessage of 5.5.0.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from controller_core.broker_settings import FENCED_MS, MIN_IN_SYNC, SENDS_FROM
from controller_core.channel.errors import CallTimeoutError, ConnectionClosedError
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import shown
from controller_core.remoting.host_port import join_host_port
from controller_core.remoting.numbers import whole_number
from controller_core.server.common.broker_questions import Ask, RefusedError, ask_or_raise
from controller_core.server.settings import properties

COPIES_DIGITS_MAX: Final = 9
"""Digits of a setting that is noted; the broker's answer is a text that the broker chose."""
SENDS_REFUSED_MS: Final = 60_000
"""For how long a guard lets a broker refuse sends, if no leader ends it before.

A guard has ended long before that. The time is for a leader of an older version, which does not know of this
setting. The clocks of controller and broker may differ by less.
"""


@dataclass(frozen=True, slots=True)
class WriteSettings:
    """Their values.

    Attributes:
        min_in_sync: sends that wait for copies are refused while the SyncStateSet has fewer members.
        sends_from_ms: all sends are refused before this time of the broker's clock, UTC; 0 for none.
    """

    min_in_sync: int
    sends_from_ms: int = 0

    def stopped(self, min_in_sync: int, now_ms: int) -> "WriteSettings":
        """Return what a guard sets at a time, UTC; a later time than its own stays, such as a fence's."""
        return WriteSettings(min_in_sync, max(self.sends_from_ms, now_ms + SENDS_REFUSED_MS))

    def allowed(self, min_in_sync: int) -> "WriteSettings":
        """Return what a guard leaves behind: sends are taken again, unless a fence refuses them.

        The time that a guard has set cannot be told from an administrator's: the leader's clock may have been
        set since, and another leader has another clock. So an administrator's time is lost.
        """
        return WriteSettings(min_in_sync, FENCED_MS if self.sends_from_ms >= FENCED_MS else 0)


class BrokerWriteSettings:
    """Reads and sets both of any broker; raises one of `ASK_ERRORS`."""

    def __init__(self, ask: Ask, forget: Callable[[str], None]) -> None:
        """Take two functions: one asks a broker, one closes the connection to an address."""
        self._ask: Final = ask
        self._forget: Final = forget

    async def asked_twice(self, address: str) -> WriteSettings:
        """Return the settings; ask once more after a missing answer.

        A broker may be paused, and a repeated notice closes our connection.
        """
        try:
            return await self.of(address)
        except (CallTimeoutError, ConnectionClosedError):
            self._forget(address)
            return await self.of(address)

    async def of(self, address: str) -> WriteSettings:
        """Return the settings of the broker that announces this address; keep a connection to that broker."""
        held = await self._settings_at(address)
        if not _announces(held, address):
            # The connection dates from a time when another broker used the address.
            self._forget(address)
            held = await self._settings_at(address)
            if not _announces(held, address):
                raise RefusedError(f"another broker answers at {address}")
        text = held.get(MIN_IN_SYNC, "")
        number = whole_number(text, COPIES_DIGITS_MAX)
        if number is None:
            raise RefusedError(
                f"its {MIN_IN_SYNC} is not a number of at most {COPIES_DIGITS_MAX} digits: {shown(text)}"
            )
        return WriteSettings(number, whole_number(held.get(SENDS_FROM, "")) or 0)

    async def _settings_at(self, address: str) -> dict[str, str]:
        answer = await ask_or_raise(self._ask, address, RequestCode.GET_BROKER_CONFIG)
        return properties.parse(answer.body.decode())

    async def put(self, address: str, settings: WriteSettings) -> None:
        """Set both; raise one of `ASK_ERRORS` without an answer that says so."""
        values = {MIN_IN_SYNC: str(settings.min_in_sync), SENDS_FROM: str(settings.sends_from_ms)}
        body = properties.write(values).encode()
        await ask_or_raise(self._ask, address, RequestCode.UPDATE_BROKER_CONFIG, body=body)


def _announces(held: dict[str, str], address: str) -> bool:
    """Return whether settings are those of the broker that announces this address; True if unknown."""
    host, port = held.get("brokerIP1"), held.get("listenPort")
    return not host or not port or join_host_port(host, port) == address
