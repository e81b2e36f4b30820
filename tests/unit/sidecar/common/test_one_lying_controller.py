"""Companions, fence, handovers and seeds learn of a group from a majority of controllers.

One controller that lies moves none of them.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ha_sidecar.address import HostPort, host_port
from ha_sidecar.common.controllers import Controllers
from ha_sidecar.common.questions import ask_group, may_elect_uncleanly
from ha_sidecar.companion.companion import Companion
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.holding.served_elsewhere import ServedClients, ServedElsewhere
from ha_sidecar.decisions.succession import is_succeeded
from ha_sidecar.seed.config import SeedConfig
from ha_sidecar.seed.source import GroupAnswer, find_outlook
from testkit.fakes.scripted_controllers import GROUP, Said, ScriptedController, scripted

HONEST = Said(5, 1, "10.0.0.1:1", members=(1, 2), alive=(1,))
LIE = Said(2**31 - 1, 7, "10.0.0.7:1", members=(2, 3, 7), alive=(7,))
ME = "10.0.0.2:1"
"""The address of member 2, which is dead."""


@pytest.fixture
async def controllers() -> AsyncIterator[list[ScriptedController]]:
    """Three; the first one lies, and says that it leads a group of one, the others name another leader."""
    async with scripted(3, HONEST) as made:
        liar, leader, follower = made
        liar.said, liar.count = LIE, 1
        leader.leads, leader.leader = True, leader.address
        follower.leader = leader.address
        yield made


def addresses(of: list[ScriptedController]) -> tuple[HostPort, ...]:
    return tuple(host_port(one.address) for one in of)


async def test_what_the_others_say_of_a_group_counts(controllers: list[ScriptedController]) -> None:
    asking = Controllers(addresses(controllers))
    asking.start()
    try:
        for _ in range(5):
            found = await ask_group(asking, "c1", GROUP)
            assert (found.master_id, found.master_epoch, found.members) == (1, 5, (1, 2))
    finally:
        await asking.stop()


async def test_the_leader_of_the_others_tells_whether_elections_may_be_unclean(
    controllers: list[ScriptedController],
) -> None:
    liar, leader, follower = controllers
    asking = Controllers(addresses(controllers))
    asking.start()
    try:
        liar.settings = "enableElectUncleanMaster=true\n"
        assert await may_elect_uncleanly(asking) is False
        leader.settings = "controllerType=DLedger\nenableElectUncleanMaster=true\nisProcessReadEvent=false\n"
        assert await may_elect_uncleanly(asking) is True
        leader.is_mute = follower.is_mute = True
        assert await may_elect_uncleanly(asking) is None
    finally:
        await asking.stop()


async def test_held_clients_are_not_carried_to_the_liar_s_master(
    controllers: list[ScriptedController],
) -> None:
    config = CompanionConfig(
        cluster="c1", group=GROUP, broker=("127.0.0.1", 1), controllers=addresses(controllers)
    )
    companion, carried = Companion(config), list[HostPort]()
    companion._controllers.start()
    try:
        before = await ask_group(companion._controllers, "c1", GROUP)
        elsewhere = ServedElsewhere(companion._group_now)
        assert await elsewhere.look(before, carried.append) is ServedClients.NONE
        assert carried == []
        for one in controllers:
            one.said = LIE
        now = await ask_group(companion._controllers, "c1", GROUP)
        assert is_succeeded(before, now), "the lie would be believed of a majority"
    finally:
        await companion._controllers.stop()


@pytest.mark.parametrize("lie", [LIE, Said(6, 0, "", members=(2,), alive=())])
async def test_a_seed_takes_no_id_back_that_a_living_master_s_set_has(
    controllers: list[ScriptedController], tmp_path: Path, lie: Said
) -> None:
    controllers[0].said = lie
    config = SeedConfig(
        cluster="c1",
        group=GROUP,
        store=tmp_path,
        controllers=addresses(controllers),
        advertise=ME,
        reclaim=True,
    )
    assert await asyncio.to_thread(find_outlook, config) == GroupAnswer(known=True, former_id=0)
    for one in controllers:
        one.said = Said(6, 0, "", members=(2,), alive=())
    assert await asyncio.to_thread(find_outlook, config) == GroupAnswer(known=True, former_id=2)
