"""A notice is a hint: which master a log replica follows is what a majority of the controllers said last."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.errors import BodyError, HeaderError
from controller_core.remoting.headers import (
    GetReplicaInfoResponseHeader,
    NotifyBrokerRoleChangedRequestHeader,
)
from ha_sidecar.common import controllers as controllers_module
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError
from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.replica import master_watch as module
from ha_sidecar.replica.group_view import BEFORE_ELECTIONS, FollowedGroup, MasterRole
from ha_sidecar.replica.master_watch import MasterWatch, check_notice
from testkit.fakes.scripted_controllers import GROUP, HOST, Said, ScriptedController, scripted

EPOCH_MAX = 2**31 - 1
HONEST = Said(5, 1, "a:1")
EVIL = Said(EPOCH_MAX, 7, "evil:1", (1, 2, 7), EPOCH_MAX)
WAIT_S = 30.0


def notice(epoch: int, master_id: int | None = 7) -> NotifyBrokerRoleChangedRequestHeader:
    return NotifyBrokerRoleChangedRequestHeader("evil:1", epoch, None, master_id)


@dataclass
class WatchedMaster:
    """A watch, its three controllers, and what it learned."""

    controllers: list[ScriptedController]
    connections: Controllers
    view: FollowedGroup
    watch: MasterWatch

    async def follow_hint(self) -> None:
        """Wait until the watch has checked the hint."""
        assert self.watch._hint is not None
        await asyncio.wait_for(asyncio.shield(self.watch._hint), WAIT_S)

    def say(self, *said: Said | None) -> None:
        """Have each controller say this; None: it neither leads nor follows."""
        for controller, words in zip(self.controllers, said, strict=True):
            controller.said = words

    def no_leader(self) -> None:
        """Make every controller name no leader, so that answers are compared."""
        for controller in self.controllers:
            controller.leader, controller.leads = "", False


@contextlib.asynccontextmanager
async def watched(said: Said = HONEST) -> AsyncIterator[WatchedMaster]:
    async with scripted(3, said) as controllers:
        addresses = [(HOST, int(one.address.rpartition(":")[2])) for one in controllers]
        connections, view = Controllers(addresses), FollowedGroup()
        view.broker_id = 2

        async def learn(
            info: GetReplicaInfoResponseHeader, members: SyncStateSet | None, asked_at: int
        ) -> None:
            view.learn(
                *(info.master_epoch, info.master_broker_id, info.master_address, members), asked_at=asked_at
            )

        async def register() -> None:
            raise AssertionError("these controllers know the replica")

        connections.start()
        try:
            watch = MasterWatch(GroupName("c1", GROUP), connections, view, learn, register, lambda: True)
            yield WatchedMaster(controllers, connections, view, watch)
        finally:
            await connections.stop()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HINT_S", 0.1)
    monkeypatch.setattr(module, "ASK_AGAIN_S", 0.01)
    monkeypatch.setattr(controllers_module, "VOUCHED_S", 0.0)
    monkeypatch.setattr(controllers_module, "LEADER_TIMEOUT_S", 0.1)
    monkeypatch.setattr(controllers_module, "CALL_TIMEOUT_S", 0.1)


@pytest.mark.parametrize("epoch", [EPOCH_MAX, 6])
async def test_a_notice_that_the_controllers_do_not_confirm_moves_nothing(epoch: int) -> None:
    async with watched() as made:
        await made.watch.ask()
        made.watch.hint(notice(epoch), SyncStateSet.of([1, 2, 7], epoch))
        await made.follow_hint()
        assert (made.view.role, made.view.members) == (MasterRole(5, 1, "a:1"), {1, 2})
        assert (made.watch.counts.unconfirmed, made.watch.counts.confirmed) == (1, 0)


@pytest.mark.parametrize("epoch", [5, 4, 0])
async def test_a_notice_of_a_known_epoch_asks_nobody_whatever_address_it_names(epoch: int) -> None:
    async with watched() as made:
        await made.watch.ask()
        asked = [len(one.asked) for one in made.controllers]
        made.watch.hint(notice(epoch), None)
        assert made.watch._hint is None
        assert [len(one.asked) for one in made.controllers] == asked
        assert made.view.role == MasterRole(5, 1, "a:1")


async def test_a_true_notice_leads_to_one_question_at_once() -> None:
    async with watched() as made:
        await made.watch.ask()
        made.say(*[Said(6, 2, "b:1")] * 3)
        for one in made.controllers:
            one.asked.clear()
        made.watch.hint(notice(6, 2), None)
        await made.follow_hint()
        assert made.view.role == MasterRole(6, 2, "b:1")
        assert made.watch.counts.confirmed == 1
        told = [code for one in made.controllers for code in one.asked]
        assert told.count(RequestCode.CONTROLLER_GET_REPLICA_INFO) == 1
        assert told.count(RequestCode.CONTROLLER_GET_METADATA_INFO) <= 3


async def test_a_notice_that_comes_before_the_controllers_know_is_asked_about_until_they_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HINT_S", WAIT_S)
    async with watched() as made:
        await made.watch.ask()
        made.controllers[0].heard.clear()
        made.watch.hint(notice(6, 2), None)
        await asyncio.wait_for(made.controllers[0].heard.wait(), WAIT_S)
        assert made.view.role == MasterRole(5, 1, "a:1")
        made.say(*[Said(6, 2, "b:1")] * 3)
        await made.follow_hint()
        assert made.view.role == MasterRole(6, 2, "b:1")


async def test_a_false_notice_does_not_keep_a_true_one_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HINT_S", WAIT_S)
    monkeypatch.setattr(module, "ASK_AGAIN_S_MAX", WAIT_S)
    async with watched() as made:
        await made.watch.ask()
        made.watch.hint(notice(EPOCH_MAX), None)
        await asyncio.sleep(0.1)
        made.say(*[Said(6, 2, "b:1")] * 3)
        made.watch.hint(notice(6, 2), None)
        async with asyncio.timeout(WAIT_S / 2):
            await made.view.wait_role(MasterRole(5, 1, "a:1"))
        assert made.view.role == MasterRole(6, 2, "b:1")
        assert made.watch._hint is not None
        made.watch._hint.cancel()


@pytest.mark.parametrize("liar", [0, 1, 2])
async def test_one_controller_that_lies_is_not_believed_where_answers_are_compared(liar: int) -> None:
    async with watched() as made:
        made.no_leader()
        made.say(*[EVIL if index == liar else HONEST for index in range(3)])
        await made.watch.ask()
        assert made.view.role == MasterRole(5, 1, "a:1")


async def test_one_that_claims_to_lead_is_not_asked_while_the_others_name_another() -> None:
    async with watched() as made:
        liar = made.controllers[2]
        liar.leader, liar.leads, liar.said, liar.count = liar.address, True, EVIL, 1
        await made.watch.ask()
        assert made.view.role == MasterRole(5, 1, "a:1")


async def test_two_that_say_b_win_over_one_that_says_a_even_with_a_lower_epoch() -> None:
    async with watched(EVIL) as made:
        await made.watch.ask()
        assert made.view.role.epoch == EPOCH_MAX
        made.no_leader()
        made.say(EVIL, HONEST, HONEST)
        await made.watch.ask()
        assert (made.view.role, made.view.members) == (MasterRole(5, 1, "a:1"), {1, 2})


@pytest.mark.parametrize(
    "said", [(EVIL, None, None), (EVIL, HONEST, None), (EVIL, HONEST, Said(6)), (None, None, None)]
)
async def test_without_a_majority_nothing_is_learned(said: tuple[Said | None, ...]) -> None:
    async with watched() as made:
        await made.watch.ask()
        made.no_leader()
        made.say(*said)
        with pytest.raises(ControllersUnavailableError, match="no majority"):
            await made.watch.ask()
        assert made.view.role == MasterRole(5, 1, "a:1")


async def test_one_that_answers_alone_is_not_believed_even_as_a_group_of_one() -> None:
    async with watched() as made:
        await made.watch.ask()
        liar, *others = made.controllers
        liar.said, liar.count = EVIL, 1
        for other in others:
            other.is_mute = True
        with pytest.raises(ControllersUnavailableError):
            await made.watch.ask()
        assert made.view.role == MasterRole(5, 1, "a:1")


@pytest.mark.parametrize("mute", [1, 2])
async def test_a_silent_controller_costs_no_time_once_the_number_is_known(
    mute: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched() as made:
        await made.watch.ask()
        monkeypatch.setattr(controllers_module, "LEADER_TIMEOUT_S", WAIT_S)
        made.controllers[mute].is_mute = True
        async with asyncio.timeout(WAIT_S / 2):
            await made.watch.ask()


async def test_numbers_out_of_range_are_refused_with_field_and_value() -> None:
    with pytest.raises(HeaderError, match=r"masterEpoch='-1': expected at least 0"):
        check_notice(notice(-1))
    with pytest.raises(HeaderError, match="masterBrokerId='-7'"):
        check_notice(notice(6, -7))
    async with watched() as made:
        with pytest.raises(BodyError, match="syncStateSetEpoch=-2"):
            made.watch.hint(notice(6), SyncStateSet.of([1], -2))
        assert made.watch._hint is None


async def test_a_dead_master_is_left_when_asked_to() -> None:
    async with watched(Said(5, 1, "a:1", alive=(2,))) as made:
        assert await made.watch.is_being_replaced(5)
        assert made.watch.counts.confirmed == 1


async def test_a_living_master_is_left_while_the_controllers_are_replacing_it() -> None:
    async with watched() as made:
        for one in made.controllers:
            one.is_held = True
        assert await made.watch.is_being_replaced(5)


@pytest.mark.parametrize("epoch", [4, 5, 6, EPOCH_MAX])
async def test_nobody_else_can_have_the_replica_leave_its_master(epoch: int) -> None:
    async with watched() as made:
        assert not await made.watch.is_being_replaced(epoch)
        assert made.watch.counts.unconfirmed == 1


async def test_notices_to_part_beyond_the_bound_are_refused_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PARTINGS_MAX", 1)
    async with watched() as made:
        asked = [made.watch.is_being_replaced(5) for _ in range(20)]
        assert await asyncio.gather(*asked) == [False] * 20
        codes = [code for one in made.controllers for code in one.asked]
        assert codes.count(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA) == 1


def said() -> st.SearchStrategy[Said]:
    return st.builds(
        Said, st.integers(0, 9) | st.just(EPOCH_MAX), st.integers(0, 3), st.sampled_from(["a:1", "b:1"])
    )


step = st.tuples(st.just("notice"), st.integers(0, 12) | st.just(EPOCH_MAX)) | st.tuples(
    st.just("poll"), st.tuples(said(), said(), st.integers(0, 2))
)


@settings(max_examples=15, deadline=None)
@given(st.lists(step, max_size=6), said())
async def test_after_any_notices_and_polls_the_majority_s_last_word_counts(
    steps: list[tuple[str, object]], last: Said
) -> None:
    async with watched() as made:
        made.no_leader()
        for kind, what in [*steps, ("poll", (last, EVIL, 0))]:
            if kind == "notice":
                assert isinstance(what, int)
                made.watch.hint(notice(what), None)
                continue
            assert isinstance(what, tuple)
            honest, lie, liar = what
            made.say(*[lie if index == liar else honest for index in range(3)])
            expected = MasterRole(honest.epoch, honest.master_id, honest.address)
            if not honest.master_id:
                begins_anew = honest.epoch == BEFORE_ELECTIONS and made.view.role.master_id is not None
                expected = made.view.role if begins_anew else MasterRole(honest.epoch)
            await made.watch.ask()
            assert made.view.role == expected
        if made.watch._hint is not None:
            await made.follow_hint()
        assert made.view.role.epoch == expected.epoch
