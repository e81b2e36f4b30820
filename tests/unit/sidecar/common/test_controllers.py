"""The sidecar's side of the controllers: whom it asks, and that no answer of one of them is the last word."""

import asyncio

import pytest

from controller_core.channel import Connection, serve
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import GetMetaDataResponseHeader
from ha_sidecar.common import controllers as module
from ha_sidecar.common.controllers import AnswerCount, Controllers, ControllersUnavailableError
from testkit.fakes.scripted_controllers import Said, scripted

HOST = "127.0.0.1"
SOME_REQUEST = RemotingCommand.request(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA)


class _Controller:
    """Names whom it takes for the leader, and answers everything else with one code."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.leader = ""
        self.peers: str | None = None

    def connected(self, connection: Connection) -> None:
        connection.on_request = self._answer

    def _answer(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.CONTROLLER_GET_METADATA_INFO:
            header = GetMetaDataResponseHeader(controller_leader_address=self.leader, peers=self.peers)
            return RemotingCommand.response_to(request, ResponseCode.SUCCESS, header.to_ext())
        return RemotingCommand.response_to(request, self.code)


async def _opened(controllers: Controllers, count: int) -> None:
    controllers.start()
    async with asyncio.timeout(30):
        while (await controllers.count_answering(1.0)).count < count:  # noqa: ASYNC110 - connecting emits no event
            await asyncio.sleep(0.01)


async def test_whoever_answered_to_no_use_is_not_asked_again_unless_it_still_leads() -> None:
    old, new = _Controller(ResponseCode.SYSTEM_ERROR), _Controller(ResponseCode.SUCCESS)
    servers = [await serve(HOST, 0, one.connected) for one in (old, new)]
    addresses = [(HOST, server.port) for server in servers]
    controllers = Controllers(addresses)
    old.leader = new.leader = f"{HOST}:{servers[0].port}"
    try:
        await _opened(controllers, 2)
        assert (await controllers.call(SOME_REQUEST)).code == ResponseCode.SYSTEM_ERROR
        old.leader = new.leader = f"{HOST}:{servers[1].port}"
        controllers.forget_leader()
        assert (await controllers.call(SOME_REQUEST)).code == ResponseCode.SUCCESS
    finally:
        await controllers.stop()
        for server in servers:
            await server.close()


async def test_a_majority_is_one_of_the_controllers_that_there_are_and_not_of_the_list() -> None:
    heard = _Controller(ResponseCode.SUCCESS), _Controller(ResponseCode.SUCCESS)
    servers = [await serve(HOST, 0, one.connected) for one in heard]
    nobody = [(HOST, port) for port in (1, 2, 3)]
    controllers = Controllers([*((HOST, server.port) for server in servers), *nobody])
    try:
        await _opened(controllers, 2)
        assert not (await controllers.count_answering(1.0)).is_majority, (
            "they tell no number: it is the list's"
        )
        for one in heard:
            one.peers = "n0:a:9878;n1:b:9878;n2:c:9878;"
        assert await controllers.count_answering(1.0) == AnswerCount(2, 3)
        heard[1].peers = "n0:a:9878;n1:b:9878;n2:c:9878;n3:d:9878;"
        assert not (await controllers.count_answering(1.0)).is_majority, "one knows of a fourth already"
    finally:
        await controllers.stop()
        for server in servers:
            await server.close()


async def test_a_leader_that_a_majority_named_a_moment_ago_is_asked_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "VOUCHED_S", 60.0)
    async with scripted(3, Said(5)) as made:
        controllers = Controllers([(HOST, one.server.port) for one in made if one.server is not None])
        try:
            await _opened(controllers, 3)
            await controllers.ask(SOME_REQUEST)
            for one in made:
                one.asked.clear()
            await controllers.ask(SOME_REQUEST)
            assert [one.asked for one in made] == [[SOME_REQUEST.code], [], []]
            made[0].said = None  # it leads no more
            for one in made:
                one.leader = made[1].address
            assert (await controllers.ask(SOME_REQUEST)).code == ResponseCode.SUCCESS
            assert made[1].asked.count(SOME_REQUEST.code) == 1
        finally:
            await controllers.stop()


async def test_a_majority_of_the_controllers_decides_whose_answer_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "VOUCHED_S", 0.0)
    async with scripted(3, Said(5)) as made:
        controllers = Controllers([(HOST, one.server.port) for one in made if one.server is not None])
        liar = made[0]
        liar.said = Said(9)
        try:
            await _opened(controllers, 3)
            for one in made[1:]:
                one.leader = made[1].address
            assert b'"masterEpoch":5' in (await controllers.ask(SOME_REQUEST)).body, "the others name another"
            for one in made:
                one.leader, one.leads = "elsewhere:1", False
            assert b'"masterEpoch":5' in (await controllers.ask(SOME_REQUEST)).body, "two answers are equal"
            made[1].said = Said(6)
            with pytest.raises(ControllersUnavailableError, match="no majority"):
                await controllers.ask(SOME_REQUEST)
        finally:
            await controllers.stop()


async def test_one_that_claims_to_be_the_leader_that_all_name_by_another_address_does_not_win_by_being_quick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "VOUCHED_S", 0.0)
    async with scripted(3, Said(5)) as made:
        controllers = Controllers([(HOST, one.server.port) for one in made if one.server is not None])
        leader, _, liar = made
        for one in made:
            one.leader = "elsewhere:1"
        try:
            await _opened(controllers, 3)
            assert b'"masterEpoch":5' in (await controllers.ask(SOME_REQUEST)).body, "only one claims to lead"
            liar.leads, liar.said = True, Said(9)
            leader.delay_s = 0.05
            assert b'"masterEpoch":5' in (await controllers.ask(SOME_REQUEST)).body
        finally:
            await controllers.stop()


async def test_the_first_controller_that_is_connected_is_not_taken_for_all() -> None:
    async with scripted(3, Said(5)) as made:
        controllers = Controllers([(HOST, one.server.port) for one in made if one.server is not None])
        made[0].said, made[0].count = Said(9), 1
        for one in made[1:]:
            one.leader = made[1].address
        controllers.start()
        try:
            assert b'"masterEpoch":5' in (await controllers.ask(SOME_REQUEST)).body
        finally:
            await controllers.stop()


async def test_a_connection_that_closes_while_leaders_are_asked_for_is_no_crash() -> None:
    one, other = _Controller(ResponseCode.SUCCESS), _Controller(ResponseCode.SUCCESS)
    servers = [await serve(HOST, 0, controller.connected) for controller in (one, other)]
    controllers = Controllers([(HOST, server.port) for server in servers])
    try:
        await _opened(controllers, 2)
        under_way = asyncio.create_task(controllers.call(SOME_REQUEST))
        # Between the look at the open connections and the first question, one of them goes.
        asyncio.get_running_loop().call_soon(controllers.links.open.clear)
        await asyncio.gather(under_way, return_exceptions=True)
        assert not isinstance(under_way.exception(), KeyError)
    finally:
        await controllers.stop()
        for server in servers:
            await server.close()


async def _vouched(controllers: Controllers) -> None:
    """Ask once, so that the leader is known."""
    await _opened(controllers, 3)
    await controllers.ask(SOME_REQUEST)


@pytest.mark.parametrize("vouched_s", [0.0, 3_600.0], ids=["asked with the others", "asked alone"])
@pytest.mark.parametrize("how", ["ask", "call"])
async def test_a_leader_on_a_lost_node_delays_an_answer_only_until_another_is_named(
    monkeypatch: pytest.MonkeyPatch, vouched_s: float, how: str
) -> None:
    monkeypatch.setattr(module, "VOUCHED_S", vouched_s)
    monkeypatch.setattr(module, "CALL_TIMEOUT_S", 3_600.0)
    monkeypatch.setattr(module, "LOOK_AGAIN_S", 0.01)
    monkeypatch.setattr(module, "LEADER_TIMEOUT_S", 0.1)
    async with scripted(3, Said(5)) as made:
        controllers = Controllers([(HOST, one.server.port) for one in made if one.server is not None])
        lost, new, other = made
        try:
            await _vouched(controllers)
            lost.is_mute = True
            lost.heard.clear()
            asking = asyncio.ensure_future(getattr(controllers, how)(SOME_REQUEST))
            async with asyncio.timeout(30):
                await lost.heard.wait()
                new.leads, new.leader, other.leader = True, new.address, new.address
                assert (await asking).code == ResponseCode.SUCCESS
            assert SOME_REQUEST.code in new.asked
        finally:
            await controllers.stop()
