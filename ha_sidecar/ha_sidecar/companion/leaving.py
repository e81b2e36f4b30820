"""How a broker whose pod is about to stop should end: in good order, or at once.

    a slave, while another is master                                                kill
    a master whose every acknowledged message lies on a broker that can succeed it   kill
    any other master                                                                hand over, then kill
    a broker that does not answer or refuses, or one of a group without a master     stop

Why kill: the end of a killed process is seen at once, by controllers and by clients, whose own retries then
meet the new master. A broker that handed over and stops in good order keeps its clients' connections for two
seconds and more (its network threads are quiet for so long before they close them), and refuses every request
on them in that time. Nothing is lost by a kill: acknowledged messages have copies, and written ones lie with
the kernel, not with the process. And a slave that stops in good order reads nothing for 3 s before it ends
its connection to the waiting master: the first packet of that time is dropped without a word, and only a
second one ends the connection. A client that sends one message after the other makes no second one, and
waits.

The second line of the table holds when the broker acknowledges only what its whole SyncStateSet has, takes
the set for what the controllers take it for, and another broker of it lives. This only decides: who asked
does the killing.

Source: NettyRemotingServer.shutdown, DefaultMessageStore.shutdown and appendToCommitLog,
AutoSwitchHAClient.HAClientReader, MessageStoreConfig.java 5.5.0.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controller_core.access.signing import Sign
from controller_core.broker_settings import MIN_IN_SYNC
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.numbers import whole_number
from ha_sidecar.address import AddressError, host_port
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError
from ha_sidecar.common.questions import ask_broker, ask_electable, ask_group
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.handover import Handover, HandoverError
from ha_sidecar.decisions.broker_facts import (
    BrokerFacts,
    GroupFacts,
    living_members,
    settings,
    with_controller_id,
)

LOOK_TIMEOUT_S: Final = 3.0
LOOK_AGAIN_S: Final = 0.05
_TROUBLE = (AskError, ControllersUnavailableError, RemotingProtocolError, AddressError)

_log = logging.getLogger(__name__)


class UnknownStateError(Exception):
    """What a broker is could not be learned in time."""


class EndMethod(StrEnum):
    """How the broker should end."""

    STOP = "stop"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class EndDecision:
    """The decision, and its reason for a person.

    Attributes:
        is_master: the broker stays master until it ends; after a handover it is not any more.

    """

    how: EndMethod
    reason: str
    is_master: bool = False


async def leave(config: CompanionConfig) -> EndDecision:
    """Look at the broker and its group, hand over where that is needed, and say how the broker should end."""
    try:
        own, group, has_copies = await _look(config)
    except UnknownStateError as error:
        return EndDecision(EndMethod.STOP, f"broker or controllers do not say what it is: {error}")
    if not own.broker_id or group.master_id is None:
        return EndDecision(EndMethod.STOP, "the group lacks a master, or does not know the broker")
    if group.master_id != own.broker_id:
        return EndDecision(EndMethod.KILL, f"broker {group.master_id} is master")
    if has_copies:
        return EndDecision(
            EndMethod.KILL, "all that it acknowledged lies on a broker that can succeed it", is_master=True
        )
    try:
        result = await Handover(config).run()
    except HandoverError as error:
        return EndDecision(EndMethod.STOP, str(error))
    if result.new_master_id in (None, own.broker_id):
        return EndDecision(EndMethod.STOP, result.reason)
    return EndDecision(EndMethod.KILL, f"broker {result.new_master_id} is master in its place")


async def _look(config: CompanionConfig) -> tuple[BrokerFacts, GroupFacts, bool]:
    """Return what the broker is, what its group is, and whether all that it acknowledged lies on a successor.

    Raises:
        UnknownStateError: not within `LOOK_TIMEOUT_S`; the text is the last trouble, such as a
            refusal in the broker's words.
    """
    controllers, broker = Controllers(config.controllers), Asker(config.broker, config.credentials)
    controllers.start()
    trouble = "no answer yet"
    try:
        async with asyncio.timeout(LOOK_TIMEOUT_S):
            while True:
                try:
                    return await _ask_state(config, controllers, broker)
                except _TROUBLE as error:
                    if str(error) != trouble:
                        _log.info("not known yet how the broker should end: %s", error)
                    trouble = str(error)
                await asyncio.sleep(LOOK_AGAIN_S)
    except TimeoutError as error:
        raise UnknownStateError(trouble) from error
    finally:
        broker.close()
        await controllers.stop()


async def _ask_state(
    config: CompanionConfig, controllers: Controllers, broker: Asker
) -> tuple[BrokerFacts, GroupFacts, bool]:
    group = await ask_group(controllers, config.cluster, config.group)
    own = with_controller_id(await ask_broker(broker), group)
    answer = await broker.ask(RequestCode.GET_BROKER_CONFIG)
    held = settings(answer.body.decode(errors="replace"))
    safe = acknowledges_copies(held) and sees_all_members(own, group)
    return own, group, safe and await _has_successor(own, group, config.credentials)


def acknowledges_copies(held: Mapping[str, str]) -> bool:
    """Say whether, by its settings, a broker acknowledges only what two members and its whole set have."""
    least = whole_number(held.get(MIN_IN_SYNC, ""))
    return (
        held.get("brokerRole") == "SYNC_MASTER"
        and held.get("allAckInSyncStateSet") == "true"
        and least is not None
        and least >= 2
    )


def sees_all_members(own: BrokerFacts, group: GroupFacts) -> bool:
    """Say whether a master is connected to as many members as the controllers count.

    It may have dropped one alone.
    """
    return sum(slave.in_sync for slave in own.slaves) == len(group.members) - 1


async def _has_successor(own: BrokerFacts, group: GroupFacts, sign: Sign | None) -> bool:
    """Say whether another broker of the set lives, which is not a log replica."""
    for _, address in living_members(group, own.broker_id):
        asker = Asker(host_port(address), sign)
        try:
            await ask_electable(asker)
        except (AskError, RemotingProtocolError):
            continue
        finally:
            asker.close()
        return True
    return False
