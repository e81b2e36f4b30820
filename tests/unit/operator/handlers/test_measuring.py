"""How a failover's record gets its write gap and losses from a canary, and a bad canary's limits."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from rocketmq_operator.clients import canaries_and_companions
from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.clients.canaries_and_companions import CanariesClient
from rocketmq_operator.handlers import measuring
from rocketmq_operator.handlers.quiet import plan_without_work
from testkit.processes.http_served import http_served
from testkit.processes.ports import free_port
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
HOST = "demo-canary-0.shop.svc:9890"
RECORD = "orders-2"


def _service(name: str = "demo-canary-0", group: str = "orders") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"rocketmq-ha.dev/cluster": "main", "rocketmq-ha.dev/canary": group},
        },
        "spec": {"ports": [{"name": "http", "port": 9890}]},
    }


def _text(time: datetime) -> str:
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _answer(failed: datetime, **changes: object) -> Json:
    """Return a canary that met a 512 ms gap when the master was suspected, and has read all since."""
    return {
        "group": "orders",
        "since": _text(failed - timedelta(seconds=20)),
        "until": _text(failed + timedelta(seconds=10)),
        "gap_min_ms": 100,
        "gaps": [{"start": _text(failed), "end": _text(failed + timedelta(milliseconds=512))}],
        "lost": [],
    } | changes


async def _failed_over() -> tuple[OperatorWorld, datetime]:
    """Return a world whose master was lost just now, and when."""
    world = OperatorWorld({"logReplicas": 1})
    world.kube.put(_service())
    await world.settle()
    world.advance(60)
    failed = world.controllers.now
    world.kube.remove("Pod", "shop", "orders-0")
    await world.one_pass()
    world.controllers.now = failed + timedelta(seconds=5)
    return world, failed


def _measured(world: OperatorWorld) -> tuple[str | None, int | None]:
    status = world.get("Failover", RECORD)["status"]
    return status.get("writeGap"), status.get("lostMessages")


async def test_a_record_is_completed_once_the_gap_is_over_and_all_is_read() -> None:
    world, failed = await _failed_over()
    world.canaries.told[HOST] = _answer(failed, until=_text(failed))
    await world.one_pass()
    assert (world.canaries.asked, _measured(world)) == ([], (None, None)), "too early to ask"
    world.advance(10)
    await world.one_pass()
    assert _measured(world) == ("512ms", None), "the loss is unknown until the operator has read it"
    world.canaries.told[HOST] = _answer(failed)
    await world.one_pass()
    assert _measured(world) == ("512ms", 0)
    asked = len(world.canaries.asked)
    world.advance(10)
    await world.one_pass()
    assert len(world.canaries.asked) == asked, "nothing is left to ask"


async def test_a_group_is_looked_at_only_when_a_canary_can_tell_what_its_records_lack() -> None:
    world, failed = await _failed_over()
    world.advance(10)
    await world.settle()
    assert _measured(world) == (None, None)
    resource = ("BrokerGroup", "shop", "orders")
    world.canaries.told[HOST] = _answer(failed, since=_text(failed + timedelta(hours=1)))
    assert await plan_without_work(world.pass_context().environment, *resource) is not None, "it came later"
    world.canaries.told[HOST] = _answer(failed)
    assert await plan_without_work(world.pass_context().environment, *resource) is None


def _report_server(name: str, cluster: str = "main") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {
                "app.kubernetes.io/component": "report-server",
                "rocketmq-ha.dev/cluster": cluster,
                "rocketmq-ha.dev/reports-of": "demo-measure",
            },
        },
        "spec": {"ports": [{"name": "http", "port": 80}], "selector": {"app": "measure"}},
    }


async def test_a_record_says_where_reports_tell_of_it() -> None:
    world, _ = await _failed_over()
    await world.one_pass()
    assert world.get("Failover", RECORD)["status"]["page"] == "", "nobody shows reports"
    world.kube.put(_report_server("other-cluster", "other"))
    world.kube.put(_report_server("demo-reports"))
    await world.one_pass()
    page = "http://demo-reports.shop.svc/failovers/main/orders/2"
    assert world.get("Failover", RECORD)["status"]["page"] == page
    world.kube.put(_report_server("other-reports"))
    await world.settle()
    assert world.get("Failover", RECORD)["status"]["page"] == page, (
        "the written value stays while two may match"
    )


async def test_losses_are_counted() -> None:
    world, failed = await _failed_over()
    world.canaries.told[HOST] = _answer(failed, lost=[_text(failed), _text(failed + timedelta(hours=1))])
    world.advance(10)
    await world.one_pass()
    assert _measured(world) == ("512ms", 1)


async def test_what_was_measured_outlives_the_canary_and_later_knowledge_of_the_controllers() -> None:
    world, failed = await _failed_over()
    world.controllers.records[-1]["role_taken_ns"] = None
    world.canaries.told[HOST] = _answer(failed)
    world.advance(10)
    await world.one_pass()
    world.canaries.told[HOST] = _answer(failed + timedelta(seconds=40))
    world.controllers.records[-1]["role_taken_ns"] = world.controllers.records[-1]["suspected_ns"] + 10**6
    world.advance(30)
    await world.settle()
    record = world.get("Failover", RECORD)["status"]
    assert record["took"] == "1ms"
    assert _measured(world) == ("512ms", 0)


async def test_one_value_that_is_known_is_kept_while_the_other_is_awaited() -> None:
    world, failed = await _failed_over()
    world.canaries.told[HOST] = _answer(failed, until=_text(failed))
    world.advance(10)
    await world.one_pass()
    world.canaries.told[HOST] = _answer(failed, gaps=[])
    await world.one_pass()
    assert _measured(world) == ("512ms", 0)


async def test_a_canary_that_began_after_the_change_leaves_the_record_as_it_is() -> None:
    world, failed = await _failed_over()
    world.canaries.told[HOST] = _answer(failed, since=_text(failed + timedelta(seconds=2)))
    world.advance(10)
    world.kube.writes.clear()
    await world.one_pass()
    assert _measured(world) == (None, None)
    assert [words for words in world.kube.writes if "Failover" in words] == []


@pytest.mark.parametrize("how", ["refuses", "rubbish", "of another group", "no port", "no service"])
async def test_a_bad_canary_changes_nothing(how: str) -> None:
    world, failed = await _failed_over()
    world.advance(10)
    match how:
        case "rubbish":
            world.canaries.told[HOST] = {"group": "orders", "since": 5}
        case "of another group":
            world.canaries.told[HOST] = _answer(failed, group="pay")
        case "no port":
            world.get("Service", "demo-canary-0")["spec"]["ports"] = []
        case "no service":
            world.kube.remove("Service", "shop", "demo-canary-0")
    delays = await world.one_pass()
    assert delays[1] is not None
    assert _measured(world) == (None, None)
    assert world.condition("MasterElected") == ("True", "Elected")


async def test_a_silent_canary_holds_a_pass_up_for_a_moment_and_after_the_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert measuring.ASK_S_MAX <= 1.0
    monkeypatch.setattr(measuring, "ASK_S_MAX", 0.05)
    world, _ = await _failed_over()
    world.canaries.silent.add(HOST)
    world.advance(10)
    world.kube.get = _once_asked(world)  # type: ignore[method-assign] # to see that nothing is read after it
    async with asyncio.timeout(30):  # the canary never answers
        await world.one_pass()
    assert world.canaries.asked == [HOST]
    assert _measured(world) == (None, None)


def _once_asked(world: OperatorWorld) -> Any:
    get = world.kube.get

    async def checked(kind: str, namespace: str, name: str) -> Json | None:
        assert world.canaries.asked == [], "a look came after the canary"
        return await get(kind, namespace, name)

    return checked


async def test_of_two_canaries_the_one_that_can_tell_is_heard() -> None:
    world, failed = await _failed_over()
    world.kube.put(_service("other-canary-0"))
    world.canaries.told[HOST] = _answer(failed, since=_text(failed + timedelta(seconds=5)))
    world.canaries.told["other-canary-0.shop.svc:9890"] = _answer(failed)
    world.advance(10)
    await world.one_pass()
    assert _measured(world) == ("512ms", 0)


async def test_a_change_that_is_an_hour_old_is_given_up() -> None:
    world, failed = await _failed_over()
    world.advance(3_700)
    world.canaries.told[HOST] = _answer(failed)
    await world.one_pass()
    assert world.canaries.asked == []
    assert _measured(world) == (None, None)


async def test_nobody_is_asked_about_a_paused_group() -> None:
    world, failed = await _failed_over()
    world.canaries.told[HOST] = _answer(failed)
    world.advance(10)
    world.write_group({"logReplicas": 1, "paused": True})
    await world.one_pass()
    assert world.canaries.asked == []


async def test_a_canarys_service_is_not_taken_for_a_member() -> None:
    world, _ = await _failed_over()
    world.advance(60)
    await world.settle()
    assert world.has("Service", "demo-canary-0")


class _Canary:
    """A canary's HTTP interface with one canned answer; None for silence."""

    def __init__(self) -> None:
        self.host = ""
        self.paths: list[str] = []
        self.answer: web.Response | None = None

    async def serve(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        if self.answer is None:
            await asyncio.Event().wait()
        return self.answer or web.Response()


@pytest.fixture
async def canary() -> AsyncIterator[_Canary]:
    one = _Canary()
    async with http_served(one.serve) as one.host:
        yield one


@pytest.fixture
async def client() -> AsyncIterator[CanariesClient]:
    async with aiohttp.ClientSession() as session:
        yield CanariesClient(session)


async def test_the_client_returns_what_a_canary_says(canary: _Canary, client: CanariesClient) -> None:
    canary.answer = web.json_response({"group": "orders"})
    assert await client.gaps(canary.host) == {"group": "orders"}
    assert canary.paths == ["/v1/gaps"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "not a JSON object"),
        ("<html>", "does not answer"),
        ("[" * 100_000, "does not answer"),
        (f'"{"x" * canaries_and_companions.ANSWER_BYTES_MAX}"', "bytes"),
    ],
    ids=["no object", "no JSON", "too deep", "too long"],
)
async def test_what_is_no_answer_is_the_canarys_fault(
    canary: _Canary, client: CanariesClient, text: str, words: str
) -> None:
    canary.answer = web.Response(text=text)
    with pytest.raises(PeerUnavailableError, match=words):
        await client.gaps(canary.host)


async def test_the_client_goes_nowhere_else(canary: _Canary, client: CanariesClient) -> None:
    canary.answer = web.Response(status=307, headers={"Location": f"http://{canary.host}/elsewhere"})
    with pytest.raises(PeerUnavailableError, match="307"):
        await client.gaps(canary.host)
    assert canary.paths == ["/v1/gaps"]


async def test_the_client_does_not_wait_long(
    canary: _Canary, client: CanariesClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (canaries_and_companions.ANSWER_TIMEOUT.total or 9.0) < measuring.ASK_S_MAX, (
        "one that is silent must not hide another"
    )
    monkeypatch.setattr(canaries_and_companions, "ANSWER_TIMEOUT", aiohttp.ClientTimeout(total=0.05))
    with pytest.raises(PeerUnavailableError, match="Timeout"):
        await client.gaps(canary.host)


async def test_a_canary_that_is_gone_is_unavailable(client: CanariesClient) -> None:
    with pytest.raises(PeerUnavailableError):
        await client.gaps(f"127.0.0.1:{free_port()}")
