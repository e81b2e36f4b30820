"""Bounds of a request: long texts, control characters, strangers' heartbeats reach no log or table."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from msgspec.structs import replace

from controller_core import limits
from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.groups.commands import COMMAND_BYTES_MAX, ApplyBrokerId, encode
from controller_core.groups.group import Replica
from controller_core.groups.keys import GroupKey
from controller_core.groups.members.broker_ids import BROKER_ID_MAX
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.text_bounds import (
    ADDRESS_BYTES_MAX,
    CHECK_CODE_BYTES_MAX,
    FIELD_BYTES_MAX,
    GROUP_MEMBERS_MAX,
    NAME_BYTES_MAX,
    one_line,
    text_problem,
)
from controller_core.server.elections.heartbeats import captured
from controller_core.server.node.types import ENTRY_BYTES_MAX
from controller_core.server.requests import unknown_members
from testkit.products.one_controller import OneNode
from testkit.raft.groups import GroupsDriver, stamp

WITHIN_S = 60.0
NAMES = {"clusterName": "c1", "brokerName": "b1"}
REQUESTS = {
    904: NAMES | {"brokerAddr": "h:1", "brokerId": "1"},
    1001: {"brokerName": "b1", "masterBrokerId": "1", "masterEpoch": "1"},
    1002: NAMES | {"brokerId": "1"},
    1003: NAMES | {"brokerId": "1", "brokerAddress": "h:1"},
    1004: {"brokerName": "b1"},
    1011: NAMES | {"brokerControllerIdsToClean": "1"},
    1012: NAMES,
    1013: NAMES | {"appliedBrokerId": "1", "registerCheckCode": "h:1;1", "replicaKind": "log"},
}
BOUNDED = [(code, field) for code, ext in REQUESTS.items() for field in ext if field in FIELD_BYTES_MAX]


@pytest.fixture
async def dialled(one: OneNode) -> AsyncIterator[Connection]:
    host, _, port = one.remoting.rpartition(":")
    connection = await connect(host, int(port), WITHIN_S)
    yield connection
    connection.close()


async def _ask(dialled: Connection, code: int, ext: dict[str, str], body: bytes = b"") -> RemotingCommand:
    return await dialled.call(RemotingCommand.request(code, ext, body), WITHIN_S)


def _claim(broker_id: int, name: str = "b1") -> ApplyBrokerId:
    return ApplyBrokerId(
        cluster="c1", broker_name=name, stamp=stamp(1), broker_id=broker_id, check_code="h:1;1"
    )


async def test_each_text_of_each_request_has_a_bound_that_the_remark_names(
    one: OneNode, dialled: Connection
) -> None:
    commit_index = one.node.commit_index
    for code, field in BOUNDED:
        size, bytes_max = FIELD_BYTES_MAX[field] + 1, FIELD_BYTES_MAX[field]
        answer = await _ask(dialled, code, REQUESTS[code] | {field: "x" * size})
        assert answer.code == ResponseCode.SYSTEM_ERROR, (code, field)
        assert field in (answer.remark or "")
        assert f"has {size} bytes, at most {bytes_max} are allowed" in (answer.remark or "")
        answer = await _ask(dialled, code, REQUESTS[code] | {field: "a\nb"})
        assert "has the control character U+000A at position 1 of 3" in (answer.remark or ""), (code, field)
    assert (one.node.commit_index, len(one.heartbeats.table)) == (commit_index, 0)


async def test_a_name_of_many_characters_that_java_allows_is_taken(one: OneNode, dialled: Connection) -> None:
    for name in ("x" * NAME_BYTES_MAX, "my broker/1", "bröker", "注册", "%a|b_c-d.e", ".."):
        ext = REQUESTS[1013] | {"brokerName": name}
        assert (await _ask(dialled, 1013, ext)).code == ResponseCode.SUCCESS
        assert one.machine.state.get(GroupKey("c1", name)) is not None


async def test_the_lists_of_bodies_have_bounds(one: OneNode, dialled: Connection) -> None:
    ids = json.dumps({"syncStateSet": list(range(GROUP_MEMBERS_MAX + 1)), "syncStateSetEpoch": 1}).encode()
    answer = await _ask(dialled, 1001, REQUESTS[1001], ids)
    assert f"syncStateSet has {GROUP_MEMBERS_MAX + 1} ids" in (answer.remark or "")
    answer = await _ask(dialled, 1006, {}, json.dumps(["b1", "x" * 300]).encode())
    assert "a broker name has 300 bytes, at most 255 are allowed" in (answer.remark or "")


async def test_a_group_that_an_older_release_let_in_can_be_cleaned(one: OneNode, dialled: Connection) -> None:
    name = "x" * 5_000 + "\n"
    await one.node.propose(encode(_claim(1, name)))
    ext = {"clusterName": "c1", "brokerName": name, "isCleanLivingBroker": "true"}
    assert (await _ask(dialled, 1012, ext)).code == ResponseCode.SYSTEM_ERROR
    assert (await _ask(dialled, 1011, ext)).code == ResponseCode.SUCCESS
    assert len(one.machine.state) == 0
    assert (await _ask(dialled, 1011, ext)).code == ResponseCode.SYSTEM_ERROR


async def test_heartbeats_of_unregistered_ids_are_not_captured_and_make_nobody_live(
    one: OneNode, dialled: Connection
) -> None:
    assert (await _ask(dialled, 1013, REQUESTS[1013] | {"replicaKind": ""})).code == ResponseCode.SUCCESS
    for broker_id in range(1, 2_000):
        ext = REQUESTS[904] | {"brokerId": str(broker_id), "epoch": "2147483647", "maxOffset": str(2**62)}
        dialled.send_oneway(RemotingCommand.request(904, ext, oneway=True))
    assert (await _ask(dialled, 1002, REQUESTS[1002])).code == ResponseCode.SUCCESS
    assert len(one.heartbeats.table) == 1
    assert len(one.heartbeats.unregistered) == limits.CHANNEL_UNREGISTERED_MAX
    assert one.heartbeats.alive_ids_of("c1", "b1") == (1,)
    assert [broker.id for broker in one.heartbeats.alive_of("", "b1")] == [1]
    assert one.heartbeats.alive_of("c1", "nobody") == ()


async def test_a_full_group_takes_no_further_member(one: OneNode, dialled: Connection) -> None:
    claims = [encode(_claim(broker_id)) for broker_id in range(1, GROUP_MEMBERS_MAX + 1)]
    await asyncio.gather(*(one.node.propose(claim) for claim in claims))
    answer = await _ask(dialled, 1013, REQUESTS[1013] | {"appliedBrokerId": str(GROUP_MEMBERS_MAX + 1)})
    assert answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert f"at most {GROUP_MEMBERS_MAX} are allowed" in (answer.remark or "")
    assert (await _ask(dialled, 1013, REQUESTS[1013])).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("broker_id", [BROKER_ID_MAX + 1, 2**62, 2**63 - 1])
async def test_a_claim_of_an_id_that_no_controller_gave_is_refused(
    one: OneNode, dialled: Connection, broker_id: int
) -> None:
    assert (await _ask(dialled, 1013, REQUESTS[1013])).code == ResponseCode.SUCCESS
    answer = await _ask(dialled, 1013, REQUESTS[1013] | {"appliedBrokerId": str(broker_id)})
    assert answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert f"brokerId: {broker_id} in broker-set: b1: the ids 1 to {BROKER_ID_MAX}" in (answer.remark or "")
    assert one.group().next_broker_id == 2


async def test_a_claim_of_the_highest_id_leaves_ids_and_one_recorded_above_it_may_be_repeated(
    one: OneNode, dialled: Connection
) -> None:
    async def claim(broker_id: int) -> int:
        return (await _ask(dialled, 1013, REQUESTS[1013] | {"appliedBrokerId": str(broker_id)})).code

    assert [await claim(broker_id) for broker_id in (1, BROKER_ID_MAX, BROKER_ID_MAX + 1)] == [0, 0, 0]
    await one.node.propose(encode(_claim(2**62)))  # as a leader of the release before
    assert await claim(2**62) == ResponseCode.SUCCESS


@pytest.mark.parametrize("broker_id", [-1, 0, BROKER_ID_MAX + 1, 2**63 - 1])
async def test_a_registration_of_an_impossible_id_is_refused_without_a_log_entry_however_often_it_comes(
    one: OneNode, dialled: Connection, broker_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_members, "TAKE_UP_AFTER_MS", 0)
    before = one.node.commit_index
    for _ in range(5):
        answer = await _ask(dialled, 1003, REQUESTS[1003] | {"brokerId": str(broker_id)})
        assert answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
        assert f"BrokerId: {broker_id} of broker-set: b1 cannot be taken up" in (answer.remark or "")
    assert one.node.commit_index == before


async def test_a_full_group_takes_up_no_further_member(
    one: OneNode, dialled: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_members, "TAKE_UP_AFTER_MS", 0)
    claims = [encode(_claim(broker_id)) for broker_id in range(1, GROUP_MEMBERS_MAX + 1)]
    await asyncio.gather(*(one.node.propose(claim) for claim in claims))
    before = one.node.commit_index
    answer = await _ask(dialled, 1003, REQUESTS[1003] | {"brokerId": str(GROUP_MEMBERS_MAX + 1)})
    assert answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert f"at most {GROUP_MEMBERS_MAX} are allowed" in (answer.remark or "")
    assert one.node.commit_index == before


def test_of_a_group_that_outgrew_its_bound_the_sync_state_set_is_captured_first() -> None:
    group = GroupsDriver().group_of_three().group
    replicas = {broker_id: Replica("h:1", "h:1;1") for broker_id in range(1, 3 * GROUP_MEMBERS_MAX)}
    grown = replace(group, replicas=replicas, sync_state_set=(1, 2, 2_500))
    ids = list(captured(grown))
    assert (len(ids), ids[:3]) == (GROUP_MEMBERS_MAX, [1, 2, 2_500])


async def test_http_names_and_ids_have_the_same_bounds(one: OneNode) -> None:
    async def post(path: str, body: object) -> tuple[int, dict[str, object]]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"http://{one.http}{path}", json=body) as response,
        ):
            return response.status, await response.json()

    status, value = await post(f"/v1/groups/c1/{'x' * 300}/elect", {"brokerId": 1})
    assert (status, value["field"]) == (400, "group")
    assert value["error"] == "has 300 bytes, at most 255 are allowed"
    status, value = await post("/v1/groups/c%0A1/b1/elect", {"brokerId": 1})
    assert (status, value["field"]) == (400, "cluster")
    for broker_id, field in ((2**63, "brokerId"), (-1, "brokerId"), (10**400, "body")):
        status, value = await post("/v1/groups/c1/b1/elect", {"brokerId": broker_id})
        assert (status, value["field"]) == (400, field)
    for body in (
        {"add": "n3-" + "h" * 400 + ":1"},
        {"remove": "n\n3"},
        {"replace": {"add": ["n3" * 400], "remove": []}},
    ):
        status, value = await post("/v1/members", body)
        assert status == 400, value
        assert value["field"] in {"add", "remove"}
    assert (await post("/v1/leader/transfer", {"to": "n" * 400}))[0] == 400


def test_bounds_of_one_command_are_below_that_of_an_entry() -> None:
    assert COMMAND_BYTES_MAX <= ENTRY_BYTES_MAX
    texts = 2 * NAME_BYTES_MAX + ADDRESS_BYTES_MAX + CHECK_CODE_BYTES_MAX
    assert texts + 100 * GROUP_MEMBERS_MAX < COMMAND_BYTES_MAX // 8


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("b1", None),
        ("é" * 127, None),
        ("é" * 128, "has 256 bytes, at most 255 are allowed"),
        ("a\u2028", "has the control character U+2028 at position 1 of 2"),
        ("\ud800", "has the control character U+D800 at position 0 of 1"),
        ("\x85", "has the control character U+0085 at position 0 of 1"),
        ("a b\u3000c", None),
    ],
)
def test_a_text_is_counted_in_bytes_and_has_no_control_characters(text: str, problem: str | None) -> None:
    assert text_problem(text, NAME_BYTES_MAX) == problem


def test_a_text_is_one_line_on_a_terminal() -> None:
    assert one_line("a\nb\r\x1b[2J\u2028é\u3000\ud800") == r"a\nb\r\x1b[2J\u2028é" + "\u3000" + r"\ud800"
    assert one_line("b1 \u202eevila") == r"b1 \u202eevila"
