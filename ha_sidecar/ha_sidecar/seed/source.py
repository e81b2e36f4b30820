"""Choose the source of a seed: a member of the SyncStateSet with an HA address, the master last.

A master gives its HA address (906), and so does a log replica at any time; a Java slave gives none. A log
replica with certificates promises TLS there (`ha_socket`).

The id that an empty store may take back. A broker that lost its disk comes back as another one, with a new
id, and cannot be elected before a master has taken it into the SyncStateSet. Where no master lives any more
and only a log replica of the set does, no master would ever take it in. So the store is filled from that log
replica to its last byte and takes its former id back, which is in the set: the copy has all that the set was
promised. That holds only while nothing can be acknowledged at the same time, so only where an acknowledgement
needs every member of the set, the former one included, and no master lives before and after the copy.

Nor may anything have been acknowledged without the one that is copied from. A master that dies before anybody
has joined it leaves a set of itself alone. Where an acknowledgement needs more (`min_in_sync`) it gave none,
and the members of the set before it have all that there is. A joining member acknowledges a moment before the
controllers know of it. So every living replica is asked for its log's end, and the furthest is copied from.
(Where such a one has lost its disk too, both copies of what it acknowledged are gone.)

Source: AdminBrokerProcessor.java (906), ReplicasInfoManager.getSyncStateData (1006),
AutoSwitchHAService.inSyncReplicasNums 5.4.0.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from controller_core.access.signing import Sign
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.headers import ExchangeHAInfoRequestHeader, ExchangeHAInfoResponseHeader
from controller_core.remoting.numbers import BrokerId
from ha_sidecar.address import AddressError, host_port
from ha_sidecar.common import metadata
from ha_sidecar.common.controllers import Controllers
from ha_sidecar.common.ha_socket import HaEnd, HaTls, told_end
from ha_sidecar.common.identity import NO_ID
from ha_sidecar.common.questions import UnknownGroupError, ask_group_until_answered, ask_log_end
from ha_sidecar.decisions.broker_facts import GroupFacts
from ha_sidecar.decisions.metadata_tables import MetadataSnapshot
from ha_sidecar.seed.config import SeedConfig

FIND_TIMEOUT_S = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GroupAnswer:
    """What the controllers can tell an empty store.

    Attributes:
        known: whether they know its group; an unknown group has nothing to copy.
        former_id: the id to take back, 0 for none.
    """

    known: bool
    former_id: BrokerId = NO_ID


_log = logging.getLogger(__name__)


def find_source(config: SeedConfig) -> HaEnd | None:
    """Return the HA end to copy from, None if no member gives one now."""
    if config.source is not None:
        tls = HaTls(config.tls, config.source[0]) if config.source_tls and config.tls else None
        return HaEnd(config.source, tls)

    def ask(address: str, sign: Sign | None) -> Awaitable[HaEnd | None]:
        return _ha_end(address, sign, config.tls)

    return asyncio.run(_ask_members(config, ask))


def find_outlook(config: SeedConfig) -> GroupAnswer | None:
    """Return what the controllers say of the group now, None if they do not answer in time."""
    return asyncio.run(_ask_outlook(config))


async def _ask_outlook(config: SeedConfig) -> GroupAnswer | None:
    controllers = Controllers(config.controllers)
    controllers.start()
    try:
        async with asyncio.timeout(FIND_TIMEOUT_S):
            group = await ask_group_until_answered(
                controllers, config.cluster, config.group, _note, pause_s=0.1
            )
    except UnknownGroupError:
        return GroupAnswer(known=False)
    except TimeoutError:
        return None
    finally:
        await controllers.stop()
    return GroupAnswer(True, former_id(group, config.advertise) if config.reclaim else NO_ID)


def former_id(group: GroupFacts, advertise: str) -> BrokerId:
    """Return the id of the set that `advertise` had and may have again, 0 for none or if it must not."""
    alive = {broker_id for broker_id, _, lives in group.others if lives}
    if group.master_id in alive:
        return NO_ID
    mine = max((broker_id for broker_id, address, _ in group.others if address == advertise), default=NO_ID)
    return mine if mine in group.members and mine not in alive else NO_ID


def find_metadata(config: SeedConfig) -> MetadataSnapshot:
    """Return the metadata of the first member that can tell; empty without such a member."""
    if not config.controllers:
        return {}
    return asyncio.run(_ask_members(config, _metadata, master_first=True)) or {}


async def _ask_members(
    config: SeedConfig, ask: Callable[[str, Sign | None], Awaitable[T | None]], *, master_first: bool = False
) -> T | None:
    """Return the first answer of a member, None if none comes in time."""
    controllers = Controllers(config.controllers)
    controllers.start()
    try:
        async with asyncio.timeout(FIND_TIMEOUT_S):
            group = await ask_group_until_answered(
                controllers, config.cluster, config.group, _note, pause_s=0.1
            )
            addresses = candidates(group, BrokerId(config.broker_id)) or await _furthest(group, config)
            for address in reversed(addresses) if master_first else addresses:
                found = await ask(address, config.credentials)
                if found is not None:
                    return found
    except (TimeoutError, UnknownGroupError):
        _log.warning("the controllers do not tell of group %s", config.group)
    finally:
        await controllers.stop()
    return None


def candidates(group: GroupFacts, own_id: BrokerId) -> list[str]:
    """Return the addresses of living members of the set, the master last; never our own."""
    found = [
        (broker_id == group.master_id, broker_id, address)
        for broker_id, address, alive in group.others
        if alive and broker_id in group.members and broker_id != own_id
    ]
    return [address for _, _, address in sorted(found)]


async def _furthest(group: GroupFacts, config: SeedConfig) -> list[str]:
    """Return the living members with the longest logs, after a lone master and a dead set."""
    living = {
        broker_id: address
        for broker_id, address, alive in group.others
        if alive and broker_id != config.broker_id
    }
    if len(group.members) >= config.min_in_sync or living.keys().isdisjoint(group.preceding):
        return []
    ends = {address: await _log_end(address, config.credentials) for address in living.values()}
    if None in ends.values():
        return []
    # Of two logs the one with the later epoch has all that the other has and that was acknowledged; so has
    # the longer of one epoch.
    furthest = max(end for end in ends.values() if end is not None)
    return [address for address, end in ends.items() if end == furthest]


def _note(error: Exception) -> None:
    """Log why the controllers did not answer; a group that they do not know ends the questions."""
    if isinstance(error, UnknownGroupError):
        raise error
    _log.debug("controllers: %s", error)


async def _ha_end(address: str, sign: Sign | None, trust: Path | None) -> HaEnd | None:
    async def ask(asker: Asker) -> HaEnd | None:
        answer = await asker.ask(RequestCode.EXCHANGE_BROKER_HA_INFO, ExchangeHAInfoRequestHeader())
        return told_end(ExchangeHAInfoResponseHeader.from_ext(answer.ext), address, trust)

    return await _ask_member(address, sign, "HA address", ask)


async def _log_end(address: str, sign: Sign | None) -> tuple[int, int] | None:
    return await _ask_member(address, sign, "end of its log", ask_log_end)


async def _metadata(address: str, sign: Sign | None) -> MetadataSnapshot | None:
    async def ask(asker: Asker) -> MetadataSnapshot | None:
        return await metadata.fetch(asker) or None

    return await _ask_member(address, sign, "metadata", ask)


async def _ask_member(
    address: str, sign: Sign | None, what: str, ask: Callable[[Asker], Awaitable[T | None]]
) -> T | None:
    """Ask a member over a connection of its own.

    None if it does not answer, or in a way that cannot be read.
    """
    try:
        asker = Asker(host_port(address), sign)
        try:
            return await ask(asker)
        finally:
            asker.close()
    except (AskError, RemotingProtocolError, AddressError) as error:
        level = logging.WARNING if isinstance(error, AskError) and error.is_refusal else logging.INFO
        _log.log(level, "%s does not tell its %s: %s", address, what, error)
        return None
