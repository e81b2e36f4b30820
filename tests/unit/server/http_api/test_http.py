"""The HTTP interface of one node: its pages, its streams, the rights to change, the form of errors."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from testkit.products.one_controller import OneNode

TOKEN = "let-me-in"  # noqa: S105 - a made-up token


async def _request(
    one: OneNode, method: str, path: str, body: Any = None, token: str = ""
) -> tuple[int, Any]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, f"http://{one.http}{path}", json=body) as response,
    ):
        text = await response.text()
        return response.status, json.loads(text) if response.content_type == "application/json" else text


async def test_health_is_ok_while_the_node_leads(one: OneNode) -> None:
    assert await _request(one, "GET", "/livez") == (200, "ok\n")
    assert await _request(one, "GET", "/readyz") == (200, "ok\n")


async def test_status_shows_raft_and_the_peers(one: OneNode) -> None:
    status, value = await _request(one, "GET", "/v1/status")
    assert status == 200
    assert (value["name"], value["role"], value["leader"], value["ready"]) == ("n0", "leader", "n0", True)
    assert value["peers"][0]["http_address"] == one.http
    assert value["applied_index"] <= value["commit_index"]


async def test_status_shows_what_mqadmin_changed(one: OneNode) -> None:
    assert (await _request(one, "GET", "/v1/status"))[1]["changed_settings"] == {}
    one.config.update("notifyBrokerRoleChanged=false")
    changed = {"notifyBrokerRoleChanged": "false"}
    assert (await _request(one, "GET", "/v1/status"))[1]["changed_settings"] == changed


async def test_groups_and_failovers_show_what_brokers_did(one: OneNode) -> None:
    async with one.broker() as broker:
        await broker.elect()
        status, group = await _request(one, "GET", "/v1/groups/c1/b1?consistent=true")
        assert status == 200
        assert (group["master_id"], group["master_epoch"], group["sync_state_set"]) == (1, 1, [1])
        assert group["replicas"][0] == group["replicas"][0] | {
            "broker_id": 1,
            "address": broker.address,
            "alive": True,
            "in_sync": True,
            "master": True,
            "electable": True,
        }
        _, value = await _request(one, "GET", "/v1/failovers?cluster=c1&group=b1")
        assert [record["correlation_id"] for record in value["failovers"]] == ["c1/b1/1"]
        _, value = await _request(one, "GET", "/v1/groups?cluster=elsewhere")
        assert value == {"groups": []}


@pytest.mark.parametrize(
    ("method", "path", "status", "field"),
    [
        ("GET", "/v1/nothing", 404, "path"),
        ("DELETE", "/v1/status", 405, "method"),
        ("GET", "/v1/groups/c1/none", 404, "group"),
        ("GET", "/v1/events?after=-1", 400, "after"),
        ("GET", "/v1/events?follow=perhaps", 400, "follow"),
        ("GET", "/v1/failovers?limit=x", 400, "limit"),
        ("GET", f"/v1/failovers?limit={'9' * 4_500}", 400, "limit"),
        ("POST", "/v1/groups/c1/none/elect", 400, "brokerId"),
        ("POST", "/v1/leader/transfer", 400, "to"),
    ],
)
async def test_errors_are_json_that_names_field_and_value(
    one: OneNode, method: str, path: str, status: int, field: str
) -> None:
    got, value = await _request(one, method, path, {"brokerId": "1", "to": 7} if method == "POST" else None)
    assert got == status
    assert set(value) == {"error", "field", "value"}
    assert value["field"] == field


async def test_a_body_that_is_no_object_is_refused(one: OneNode) -> None:
    assert (await _request(one, "POST", "/v1/leader/transfer", [1]))[0] == 400


async def test_designating_a_master_works_and_refusals_say_why(one: OneNode) -> None:
    async with one.broker() as first, one.broker() as second:
        await first.elect()
        first.epoch = 1
        path = "/v1/groups/c1/b1/elect"
        status, value = await _request(one, "POST", path, {"brokerId": 2})
        assert (status, value["field"], value["value"]) == (409, "brokerId", 2)
        await first.alter((1, 2), set_epoch=1)
        status, value = await _request(one, "POST", path, {"brokerId": 2})
        assert (status, value["changed"], value["master_id"], value["master_epoch"]) == (200, True, 2, 2)
        assert (await second.wait_notice(2)).header.master_broker_id == 2
        status, value = await _request(one, "POST", path, {"brokerId": 2})
        assert (status, value["changed"]) == (200, False)
        assert (await _request(one, "POST", "/v1/groups/c1/none/elect", {"brokerId": 2}))[0] == 404


@pytest.mark.parametrize("given", [{"httpToken": TOKEN}])
async def test_with_a_token_set_a_change_needs_it_and_a_read_does_not(one: OneNode) -> None:
    assert (await _request(one, "POST", "/v1/snapshot"))[0] == 401
    assert (await _request(one, "POST", "/v1/snapshot", token="wrong"))[0] == 401  # noqa: S106 - a made-up token
    assert (await _request(one, "POST", "/v1/snapshot", token=TOKEN))[0] == 200
    assert (await _request(one, "GET", "/v1/status"))[0] == 200


async def test_events_are_lines_that_can_be_resumed(one: OneNode) -> None:
    async with one.broker() as broker:
        await broker.elect()
        _, text = await _request(one, "GET", "/v1/events?follow=false")
        events = [json.loads(line) for line in text.splitlines()]
        assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
        elected = next(event for event in events if event["kind"] == "MasterElected")
        assert elected["correlation_id"] == "c1/b1/1"
        assert elected["source"] == "controller"
        _, rest = await _request(one, "GET", f"/v1/events?follow=false&after={events[0]['sequence']}")
        assert rest.splitlines()[: len(events) - 1] == text.splitlines()[1:]


async def test_an_open_stream_gets_events_as_they_happen(one: OneNode) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"http://{one.http}/v1/events") as response:
        line = asyncio.ensure_future(response.content.readline())
        async with one.broker():
            event = json.loads(await asyncio.wait_for(line, 60.0))
    assert event["kind"] == "BrokerRegistered"


@pytest.mark.parametrize("given", [{"namespace": "prod"}])
async def test_events_carry_the_namespace(one: OneNode) -> None:
    async with one.broker():
        _, text = await _request(one, "GET", "/v1/events?follow=false")
    assert {json.loads(line)["namespace"] for line in text.splitlines()} == {"prod"}


async def test_metrics_follow_the_agreement(one: OneNode) -> None:
    async with one.broker() as broker:
        await broker.elect()
        _, text = await _request(one, "GET", "/metrics")
    for line in (
        "rmqha_controller_role 3.0",
        'rmqha_group_master_epoch{cluster="c1",group="b1"} 1.0',
        'rmqha_group_sync_state_set_size{cluster="c1",group="b1"} 1.0',
        'rmqha_group_replicas{cluster="c1",group="b1"} 1.0',
        'rmqha_elections_total{cause="BrokerRequest",cluster="c1",group="b1",result="elected"} 1.0',
        'rmqha_requests_total{code="1002",result="success"} 1.0',
    ):
        assert line in text.splitlines()
    for name in ("term", "commit_index", "applied_index"):
        assert f"rmqha_controller_{name} " in text
    assert 'rmqha_controller_commit_total{result="applied"}' in text


@pytest.mark.parametrize(
    ("meant", "field"), [("n3", "replace"), ({"add": "n3"}, "add"), ({"remove": [1]}, "remove")]
)
async def test_a_replacement_that_is_no_lists_of_names_is_refused(
    one: OneNode, meant: object, field: str
) -> None:
    status, value = await _request(one, "POST", "/v1/members", {"replace": meant})
    assert (status, value["field"]) == (400, field)


async def test_a_body_that_is_nested_too_deep_is_no_json(one: OneNode) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{one.http}/v1/members", data="[" * 16_000) as response,
    ):
        assert response.status == 400
        assert (await response.json())["field"] == "body"


@pytest.mark.parametrize("given", [{"httpToken": TOKEN}])
async def test_a_token_that_is_not_utf_8_is_a_wrong_token(one: OneNode) -> None:
    host, port = one.http.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /v1/snapshot HTTP/1.0\r\nAuthorization: Bearer \xff\xfe\r\n")
    writer.write(b"Content-Length: 0\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"401"
    writer.close()
