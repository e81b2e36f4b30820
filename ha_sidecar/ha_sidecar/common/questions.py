"""Questions of several commands: to a broker about itself, to the controllers about its group.

Source: AdminBrokerProcessor.java (25, 26, 28, 907, 1007), ReplicasInfoManager.getSyncStateData (1006),
ControllerRequestProcessor.java (1010) 5.4.0.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.channel.refusals import refusal
from controller_core.remoting.bodies import (
    BrokerReplicasInfo,
    EpochEntryCache,
    HARuntimeInfo,
    ReplicasInfo,
    encode_names,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import RemotingProtocolError
from controller_core.remoting.headers import SyncStateDataRequestHeader
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError
from ha_sidecar.decisions.broker_facts import (
    BrokerFacts,
    GroupFacts,
    announced_address,
    broker_facts,
    group_facts,
)

SETTINGS_WITHIN_S: Final = 0.5
_UNCLEAN: Final = b"enableElectUncleanMaster=true"


class UnknownGroupError(AskError):
    """The controllers answered, and know no such group."""


async def ask_broker(asker: Asker, known_address: str = "") -> BrokerFacts:
    """Return a broker's own facts; ask a master for its address too, unless the caller knows it.

    Why not its figures (28): for them a broker walks the 1.2 million slots of its timer wheel. That takes
    30 ms of a core in a warm JVM, and 400 ms before the second compilation (5.5.0, TimerWheel.getAllNum).

    Raises:
        AskError: it does not answer.
        RemotingProtocolError: its answer cannot be read.
    """
    cache = EpochEntryCache.decode((await asker.ask(RequestCode.GET_BROKER_EPOCH_CACHE)).body)
    status = await ask_ha_status(asker)
    if not cache.broker_id and not known_address:
        known_address = await ask_announced_address(asker)
    return broker_facts(cache, status, known_address)


async def ask_electable(asker: Asker) -> BrokerFacts:
    """Return the facts of a broker that may be elected; a log replica does not answer request 26.

    Raises:
        AskError: it does not answer.
        RemotingProtocolError: its answer cannot be read.
    """
    return await ask_broker(asker, await ask_announced_address(asker))


async def ask_announced_address(asker: Asker) -> str:
    """Return the address that a broker announces by its settings (26), as `announced_address` does.

    Raises:
        AskError: it does not answer.
    """
    settings = await asker.ask(RequestCode.GET_BROKER_CONFIG)
    return announced_address(settings.body.decode(errors="replace"))


async def ask_ha_status(asker: Asker) -> HARuntimeInfo:
    """Return whether a broker is master, and its slaves (907).

    Raises:
        AskError: it does not answer.
        RemotingProtocolError: its answer cannot be read.
    """
    return HARuntimeInfo.decode((await asker.ask(RequestCode.GET_BROKER_HA_STATUS)).body)


async def ask_log_end(asker: Asker) -> tuple[int, int]:
    """Return the last epoch of a broker's or log replica's log, 0 for an empty list, and its end offset.

    Raises:
        AskError: it does not answer.
        RemotingProtocolError: its answer cannot be read.
    """
    cache = EpochEntryCache.decode((await asker.ask(RequestCode.GET_BROKER_EPOCH_CACHE)).body)
    return max((entry.epoch for entry in cache.epoch_list), default=0), cache.max_offset


async def ask_group(controllers: Controllers, cluster: str, group: str) -> GroupFacts:
    """Return what a majority of the controllers vouches for of a group.

    Raises:
        ControllersUnavailableError: no majority vouches for an answer.
        UnknownGroupError: they know no such group.
        AskError: the leader refused.
        RemotingProtocolError: its answer cannot be read.
    """
    info = (await ask_groups(controllers, cluster, [group])).get(group)
    if info is None:
        raise UnknownGroupError(f"the controllers do not know group {group}")
    return group_facts(info)


async def ask_groups(
    controllers: Controllers, cluster: str, groups: Collection[str]
) -> Mapping[str, ReplicasInfo]:
    """Return what a majority of the controllers vouches for of several groups of one cluster.

    Unknown groups are left out.

    Raises:
        ControllersUnavailableError: no majority vouches for an answer.
        AskError: the leader refused.
        RemotingProtocolError: its answer cannot be read.
    """
    answer = await controllers.ask(groups_question(cluster, groups))
    if answer.code != ResponseCode.SUCCESS:
        raise AskError(refusal("request 1006", answer), answer.code)
    return BrokerReplicasInfo.decode(answer.body).replicas_info_table


async def change_settings(asker: Asker, values: Mapping[str, object]) -> None:
    """Have a running broker take settings (25).

    Raises:
        AskError: it does not answer, or refuses.
    """
    body = "".join(f"{name}={value}\n" for name, value in values.items()).encode()
    await asker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)


async def may_elect_uncleanly(controllers: Controllers) -> bool | None:
    """Return whether the controllers' leader allows unclean elections now; None if it does not tell in time.

    The leader is the one that a majority of the controllers names: its setting decides elections.
    """
    question = RemotingCommand.request(RequestCode.GET_CONTROLLER_CONFIG)
    try:
        async with asyncio.timeout(SETTINGS_WITHIN_S):
            answer = await controllers.ask(question)
    except (ControllersUnavailableError, TimeoutError):
        return None
    return _UNCLEAN in answer.body.splitlines() if answer.code == ResponseCode.SUCCESS else None


def groups_question(cluster: str, groups: Collection[str]) -> RemotingCommand:
    """Return the request 1006 about groups of one cluster."""
    ext = SyncStateDataRequestHeader(cluster).to_ext()
    return RemotingCommand.request(
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, ext, encode_names(list(groups))
    )


async def ask_group_until_answered(
    controllers: Controllers, cluster: str, group: str, note: Callable[[Exception], None], *, pause_s: float
) -> GroupFacts:
    """Ask about a group until a majority of the controllers vouches for an answer.

    `note` gets the error of each attempt that failed, and may raise it to end the attempts.
    """
    while True:
        try:
            return await ask_group(controllers, cluster, group)
        except (ControllersUnavailableError, AskError, RemotingProtocolError) as error:
            note(error)
        await asyncio.sleep(pause_s)
