"""A broker's minInSyncReplicas: how it is read and set, and how another broker at its address is noticed.

Never here: why it is set (`write_guard`).

Source: AdminBrokerProcessor.updateBrokerConfig and getBrokerConfig of 5.4.0.
"""

from collections.abc import Callable
from typing import Final

from controller_core.channel.errors import CallTimeoutError, ConnectionClosedError
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import shown
from controller_core.remoting.host_port import join_host_port
from controller_core.remoting.numbers import whole_number
from controller_core.server.common.broker_questions import Ask, RefusedError, ask_or_raise
from controller_core.server.settings import properties

SETTING: Final = "minInSyncReplicas"
SETTING_DIGITS_MAX: Final = 9
"""Digits of a setting that is noted; the broker's answer is a text that the broker chose."""


class BrokerSetting:
    """Reads and sets minInSyncReplicas of any broker; raises one of `ASK_ERRORS`."""

    def __init__(self, ask: Ask, forget: Callable[[str], None]) -> None:
        """Take what asks a broker, and what closes the connection to an address."""
        self._ask: Final = ask
        self._forget: Final = forget

    async def asked_twice(self, address: str) -> int:
        """Return the setting; ask once more after a missing answer.

        A broker may be paused, and a repeated notice closes our connection.
        """
        try:
            return await self.of(address)
        except (CallTimeoutError, ConnectionClosedError):
            self._forget(address)
            return await self.of(address)

    async def of(self, address: str) -> int:
        """Return the setting of the broker that announces this address; keep a connection to that broker."""
        held = await self._settings_at(address)
        if not _announces(held, address):
            # The connection dates from a time when another broker used the address.
            self._forget(address)
            held = await self._settings_at(address)
            if not _announces(held, address):
                raise RefusedError(f"another broker answers at {address}")
        text = held.get(SETTING, "")
        number = whole_number(text, SETTING_DIGITS_MAX)
        if number is None:
            raise RefusedError(
                f"its {SETTING} is not a number of at most {SETTING_DIGITS_MAX} digits: {shown(text)}"
            )
        return number

    async def _settings_at(self, address: str) -> dict[str, str]:
        answer = await ask_or_raise(self._ask, address, RequestCode.GET_BROKER_CONFIG)
        return properties.parse(answer.body.decode())

    async def put(self, address: str, value: int) -> None:
        """Set it; raise one of `ASK_ERRORS` without an answer that says so."""
        body = properties.write({SETTING: str(value)}).encode()
        await ask_or_raise(self._ask, address, RequestCode.UPDATE_BROKER_CONFIG, body=body)


def _announces(held: dict[str, str], address: str) -> bool:
    """Return whether settings are those of the broker that announces this address; True if unknown."""
    host, port = held.get("brokerIP1"), held.get("listenPort")
    return not host or not port or join_host_port(host, port) == address
