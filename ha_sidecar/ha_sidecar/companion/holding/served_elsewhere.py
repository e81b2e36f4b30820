"""Would the clients of a dead master be served now at the addresses that they come to?

| question | asked | each |
|---|---|---|
| do the controllers name a successor with a copy? | until they do | 20 ms |
| does a master that acknowledges answer at the dead one's address? | from then on, until one does | 20 ms |
| does the address of a broker that this one had replaced still lead here? | from then on | `LENT_AGAIN_S` |

The companion asks the successor no more than it needs: each question is a new connection to a JVM that
becomes master in this moment, perhaps for the first time in its life. After a second kill the third answer
comes 1.1 s late, because kube-proxy writes its rules at most once per second. The companion used to ask the
second question beside it, fifty times per second.

Never: holds or releases anybody.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Final

from controller_core.access.signing import Sign
from controller_core.channel.asking import Asker, AskError
from controller_core.channel.errors import ConnectionClosedError
from controller_core.channel.refusals import RefusalLog
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.host_port import join_host_port
from controller_core.tls.dialling import process_tls
from ha_sidecar.address import HostPort
from ha_sidecar.common.questions import ask_ha_status
from ha_sidecar.decisions.broker_facts import (
    GroupFacts,
    master_client_address,
    master_process_address,
    parsed_address,
)
from ha_sidecar.decisions.succession import acknowledges, is_succeeded

ANSWER_WITHIN_S: Final = 0.3
TLS_ANSWER_WITHIN_S: Final = 1.0
"""With the handshake, which takes a JVM hundreds of milliseconds while all its clients come to it."""
LENT_AGAIN_S: Final = 0.1

_refusals: Final = RefusalLog(logging.getLogger(__name__))


class ServedClients(Enum):
    """Which clients of the dead master would be served now: none, those of its own address, or all."""

    NONE = auto()
    OWN = auto()
    ALL = auto()


class ServedElsewhere:
    """Says which clients of a master that died are served; remembers one epoch."""

    def __init__(
        self, controllers: Callable[[], Awaitable[GroupFacts | None]], sign: Sign | None = None
    ) -> None:
        """Take whom to ask for the group (None if no controller answers), and what signs our questions."""
        self._controllers: Final = controllers
        self._sign: Final = sign
        self._served_epoch = 0
        self._lent_turn: Final = asyncio.Lock()

    async def look(self, before: GroupFacts, on_successor: Callable[[HostPort], None]) -> ServedClients:
        """Say which clients would be served now, and before that, who could serve them.

        Args:
            before: the group with the master that died.
            on_successor: takes the address to carry sends to, as soon as the controllers name a successor
                with a copy; if they do not answer, when one answers at the clients' address.
        """
        address = master_client_address(before)
        if address is None:
            return ServedClients.NONE
        if self._served_epoch != before.master_epoch:
            if not await self._is_served(address, before, on_successor):
                return ServedClients.NONE
            self._served_epoch = before.master_epoch
            return await _own_or_all(before, self._sign)
        async with self._lent_turn:
            await asyncio.sleep(LENT_AGAIN_S)
            return await _own_or_all(before, self._sign)

    async def _is_served(
        self, address: HostPort, before: GroupFacts, on_successor: Callable[[HostPort], None]
    ) -> bool:
        now = await self._controllers()
        if now is not None:
            if not is_succeeded(before, now):
                return False
            if (successor := master_process_address(now)) is not None:
                on_successor(successor)
        if await _found_at(address, before, self._sign) is not _Found.SUCCESSOR:
            return False
        if now is None:
            on_successor(address)
        return True


class _Found(Enum):
    """What answers at an address: a master that acknowledges, nothing but an end as here, or any other."""

    SUCCESSOR = auto()
    END = auto()
    OTHER = auto()


async def _own_or_all(before: GroupFacts, sign: Sign | None) -> ServedClients:
    """Return `OWN` if the address of another member still leads here, where questions of members are ended.

    The dead master may have had the address of a broker that it had replaced a moment before. kube-proxy
    writes its rules at most once per second, so it may lead the two addresses away a second apart.
    """
    others = (other_address for broker_id, other_address, _ in before.others if broker_id != before.master_id)
    addresses = [address for text in others if (address := parsed_address(text)) is not None]
    found = await asyncio.gather(*(_found_at(address, before, sign) for address in addresses))
    return ServedClients.OWN if _Found.END in found else ServedClients.ALL


async def _found_at(address: HostPort, before: GroupFacts, sign: Sign | None) -> _Found:
    """Ask at an address that clients use whether a master answers there that acknowledges.

    A new connection each time: where one leads to is decided when it is made. One that still leads here is
    ended.
    """
    asker = Asker(address, sign)
    try:
        async with asyncio.timeout(answer_within_s()):
            answer = await ask_ha_status(asker)
        _refusals.answered(join_host_port(*address))
        serves = acknowledges(answer, before)
    except AskError as error:
        if error.is_refusal:
            _refusals.refused(join_host_port(*address), str(error))
        return _Found.END if isinstance(error.__cause__, ConnectionClosedError) else _Found.OTHER
    except (RemotingProtocolError, TimeoutError):
        return _Found.OTHER
    finally:
        asker.close()
    return _Found.SUCCESSOR if serves else _Found.OTHER


def answer_within_s() -> float:
    """Return how long one question about the successor may take."""
    return ANSWER_WITHIN_S if process_tls() is None else TLS_ANSWER_WITHIN_S
