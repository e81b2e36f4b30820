"""The companion's process beside answering brokers; test_companion_facts has what it makes of answers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from controller_core.remoting.bodies import (
    HAConnectionRuntimeInfo,
)
from ha_sidecar.common import http_server as http
from ha_sidecar.companion import config as companion_config
from ha_sidecar.companion.companion import Companion
from ha_sidecar.companion.debt_store import DEBT_FILE
from ha_sidecar.companion.holding import hold_port as hold_port
from testkit.fakes.answering_broker import AnsweringBroker
from testkit.processes.ports import free_port

WAIT_S = 30.0


class Beside:
    """A running companion, over HTTP."""

    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self._base = f"http://127.0.0.1:{port}"
        self._session = session

    async def ready(self) -> tuple[int, str]:
        """Ask for readiness."""
        async with self._session.get(f"{self._base}/readyz") as response:
            return response.status, await response.text()

    async def wait_ready(self, status: int, words: str = "") -> None:
        """Wait until readiness has that status and its text these words."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found, text = await self.ready()
                if found == status and words in text:
                    return
                await asyncio.sleep(0.01)

    async def wait_metric(self, name: str, value: float) -> None:
        """Wait until the one sample of a metric has that value."""
        async with asyncio.timeout(WAIT_S):
            while True:
                if list((await self.metric(name)).values()) == [value]:
                    return
                await asyncio.sleep(0.01)

    async def wait_events(self, kind: str, count: int) -> list[dict[str, Any]]:
        """Wait until there are so many events of a kind; return them."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found = [event for event in await self.events() if event["kind"] == kind]
                if len(found) >= count:
                    return found
                await asyncio.sleep(0.01)

    async def metric(self, name: str) -> dict[str, float]:
        """Return the samples of one metric by their labels."""
        async with self._session.get(f"{self._base}/metrics") as response:
            lines = (await response.text()).splitlines()
        found = (line.rsplit(" ", 1) for line in lines if line.startswith(f"rmqha_ha_{name}{{"))
        return {labels: float(value) for labels, value in found}

    async def hand_over(self) -> tuple[int, dict[str, Any]]:
        """Ask for a handover."""
        async with self._session.post(f"{self._base}/v1/handover") as response:
            return response.status, await response.json()

    async def settle(self) -> dict[str, Any]:
        """Have it put back what it owes."""
        async with self._session.post(f"{self._base}/v1/settle") as response:
            found: dict[str, Any] = await response.json()
            return found

    async def leave(self) -> str:
        """Ask how to end; return the answer as it is written."""
        async with self._session.post(f"{self._base}/v1/leave") as response:
            return await response.text()

    async def status(self) -> dict[str, Any]:
        """Return what it knows."""
        async with self._session.get(f"{self._base}/v1/status") as response:
            found: dict[str, Any] = await response.json()
            return found

    async def events(self) -> list[dict[str, Any]]:
        """Return all events."""
        async with self._session.get(f"{self._base}/v1/events?follow=false") as response:
            return [json.loads(line) for line in (await response.text()).splitlines()]


@contextlib.asynccontextmanager
async def beside(answering_group: Any, broker: AnsweringBroker, **values: object) -> AsyncIterator[Beside]:
    port = free_port()
    config = answering_group.config(broker, http=("127.0.0.1", port), namespace="ns", **values)
    running = asyncio.ensure_future(Companion(config).run())
    async with aiohttp.ClientSession() as session:
        made = Beside(port, session)
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    with contextlib.suppress(aiohttp.ClientError):
                        await made.ready()
                        break
                    await asyncio.sleep(0.01)
            yield made
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_master_shows_its_slaves_and_is_ready(answering_group: Any) -> None:
    master = await answering_group.add()
    await answering_group.add()
    master.max_offset = 1000
    master.slaves = (HAConnectionRuntimeInfo("/10.0.0.7:123", 40, True, 960, 1000, 5),)
    async with beside(answering_group, master) as made:
        await made.wait_ready(200, "master with the SyncStateSet [1,2], id 1, epoch 1")
        assert list((await made.metric("slave_lag_bytes")).values()) == [40]
        assert min((await made.metric("slave_lag_seconds")).values()) > 0
        assert list((await made.metric("confirm_offset_bytes")).values()) == [960]
        assert list((await made.metric("is_master")).values()) == [1]
        assert list((await made.metric("sync_state_set_size")).values()) == [2]
        master.slaves = ()
        await made.wait_metric("reconnects_total", 1)


async def test_a_slave_is_ready_while_it_is_in_the_set(answering_group: Any) -> None:
    master = await answering_group.add()
    slave = await answering_group.add(in_sync=False)
    master.max_offset, slave.max_offset = 1000, 700
    async with beside(answering_group, slave) as made:
        await made.wait_ready(503, "not in the SyncStateSet [1]")
        await master.alter([1, 2], set_epoch=1)
        await made.wait_ready(200)
        await made.wait_metric("lag_bytes", 300)
        await master.alter([1], set_epoch=2)
        await made.wait_ready(503)
        changes = await made.wait_events("InSyncChanged", 3)
        assert [event["attrs"]["in_sync"] for event in changes] == ["false", "true", "false"]
        assert {event["broker_id"] for event in changes} == {2}


async def test_a_slave_that_lost_its_topics_is_told_by_name_until_it_has_them(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ha_sidecar.companion.metadata_watch.COMPARE_S", 0.02)
    monkeypatch.setattr("ha_sidecar.decisions.metadata_comparison.GRACE_MS", 0)
    master, slave = await answering_group.add(), await answering_group.add()
    master.topics, slave.topics = b'{"topicConfigTable":{"T":{}}}', b'{"topicConfigTable":{}}'
    async with beside(answering_group, slave) as made:
        await made.wait_metric("metadata_in_sync", 0)
        status = await made.status()
        assert (status["metadata_in_sync"], status["metadata_missing"]) == (False, {"topics.json": ["T"]})
        assert (status["broker"]["broker_id"], status["group"]["master_id"], status["fence"]) == (2, 1, None)
        slave.topics = master.topics
        await made.wait_metric("metadata_in_sync", 1)


async def test_a_slave_that_is_promoted_without_its_topics_gets_them_back(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ha_sidecar.companion.metadata_watch.COMPARE_S", 0.02)
    master, slave = await answering_group.add(), await answering_group.add()
    master.topics, slave.topics = b'{"topicConfigTable":{"T":{}}}', b'{"topicConfigTable":{}}'
    async with beside(answering_group, slave, metadata_put_back=True) as made:
        await made.wait_metric("metadata_in_sync", 1)  # it lacks one, not yet for long
        await master.die()
        await slave.wait_notice(2)
        (event,) = await made.wait_events("MetadataPutBack", 1)
        assert event["attrs"]["names"] == "topics.json:T"
        assert slave.topics == master.topics
        status = await made.status()
        assert (status["broker"]["is_master"], status["metadata_in_sync"]) == (True, True)


async def test_a_slave_that_has_not_heard_of_its_promotion_is_not_held_against_itself(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ha_sidecar.companion.metadata_watch.COMPARE_S", 0.02)
    master, slave = await answering_group.add(), await answering_group.add()
    master.topics, slave.topics = b'{"topicConfigTable":{"T":{},"U":{}}}', b'{"topicConfigTable":{"U":{}}}'
    slave.takes_notices = False
    async with beside(answering_group, slave, metadata_put_back=True) as made:
        await made.wait_metric("metadata_in_sync", 1)  # it lacks one, not yet for long
        await master.die()
        await slave.wait_notice(2)
        async with asyncio.timeout(WAIT_S):
            while True:
                status = await made.status()
                if status["group"]["master_id"] == 2 and not status["metadata_in_sync"]:
                    break
                await asyncio.sleep(0.01)
        assert (status["broker"]["is_master"], status["metadata_in_sync"]) == (False, None)
        slave.become_master(2)
        (event,) = await made.wait_events("MetadataPutBack", 1)
        assert event["attrs"]["names"] == "topics.json:T"


async def test_a_new_master_that_refuses_what_it_lacks_is_told_by_name_until_it_has_it(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ha_sidecar.companion.metadata_watch.COMPARE_S", 0.02)
    master, slave = await answering_group.add(), await answering_group.add()
    master.topics, slave.topics = b'{"topicConfigTable":{"T":{}}}', b'{"topicConfigTable":{}}'
    slave.refusal = "no room for it"
    async with beside(answering_group, slave, metadata_put_back=True) as made:
        await made.wait_metric("metadata_in_sync", 1)  # it lacks one, not yet for long
        await master.die()
        await slave.wait_notice(2)
        await made.wait_metric("metadata_in_sync", 0)
        status = await made.status()
        assert (status["broker"]["is_master"], status["metadata_missing"]) == (True, {"topics.json": ["T"]})
        slave.topics = master.topics
        await made.wait_metric("metadata_in_sync", 1)


async def test_a_topic_that_a_new_master_has_for_itself_is_not_missed(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ha_sidecar.companion.metadata_watch.COMPARE_S", 0.02)
    monkeypatch.setattr("ha_sidecar.decisions.metadata_comparison.GRACE_MS", 0)
    master, slave = await answering_group.add(), await answering_group.add()
    master.topics, slave.topics = b'{"topicConfigTable":{"T":{}}}', b'{"topicConfigTable":{}}'
    slave.refusal = "The topic[T] is conflict with system topic."
    async with beside(answering_group, slave, metadata_put_back=True) as made:
        await made.wait_metric("metadata_in_sync", 0)
        await master.die()
        await slave.wait_notice(2)
        await made.wait_metric("metadata_in_sync", 1)
        assert slave.topics == b'{"topicConfigTable":{}}'


async def test_a_change_of_master_is_an_event_of_its_epoch(answering_group: Any) -> None:
    master = await answering_group.add()
    slave = await answering_group.add()
    async with beside(answering_group, slave) as made:
        await made.wait_ready(200)
        await master.die()
        await slave.wait_notice(2)
        await made.wait_ready(200)
        found = await made.wait_events("RoleChanged", 2)
    assert [(event["epoch"], event["attrs"]["master_id"]) for event in found] == [(1, "1"), (2, "2")]
    assert found[1]["correlation_id"] == "c1/b1/2"
    assert (found[1]["source"], found[1]["clock_id"].partition("-")[0]) == ("replica", "companion")


async def test_a_broker_that_is_gone_is_not_ready_and_its_numbers_end(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ha_sidecar.companion.companion.BROKER_FORGET_S", 0.1)
    master = await answering_group.add()
    async with beside(answering_group, master) as made:
        await made.wait_ready(200)
        await master.die()
        await made.wait_ready(503, "does not answer")
        assert await made.metric("max_offset_bytes") == {}
        assert list((await made.metric("broker_up")).values()) == [0]


async def test_a_broker_that_refuses_is_not_ready_and_its_words_are_told_and_logged_once(
    answering_group: Any, caplog: pytest.LogCaptureFixture
) -> None:
    master = await answering_group.add()
    master.access_refusal = "no user"
    async with beside(answering_group, master) as made:
        await made.wait_ready(503, "the broker refuses: request 1007 was answered 16: no user")
        master.access_refusal = ""
        await made.wait_ready(200)
        assert (await made.status())["refusal"] == ""
    told = [record.getMessage() for record in caplog.records if "the broker refuses" in record.getMessage()]
    assert len(told) == 1


async def test_controllers_that_are_gone_take_no_broker_out_of_service(answering_group: Any) -> None:
    master = await answering_group.add()
    async with beside(answering_group, master) as made:
        await made.wait_ready(200)
        await answering_group.node.controller.stop()
        await made.wait_metric("controllers_up", 0)
        assert (await made.ready())[0] == 200


async def test_a_handover_is_asked_for_over_http_and_answered_when_done(answering_group: Any) -> None:
    master, slave = await answering_group.add(), await answering_group.add()
    async with beside(answering_group, master) as made:
        status, answer = await made.hand_over()
        assert (status, answer["handed_over"], answer["new_master_id"]) == (200, True, 2)
        assert slave.is_master
        status, answer = await made.hand_over()
        assert (status, answer["handed_over"]) == (200, False)


async def test_a_companion_that_watches_no_revives_does_not_know_of_a_debt(answering_group: Any) -> None:
    async with beside(answering_group, await answering_group.add()) as made:
        assert await made.settle() == {"pop_revives_owed": None}


async def test_a_companion_settles_on_request_and_says_whether_it_still_owes(
    answering_group: Any, tmp_path: Path
) -> None:
    master = await answering_group.add()
    page = ("127.0.0.1", free_port())
    async with beside(answering_group, master, broker_metrics=page, state=tmp_path / "state") as made:
        assert await made.settle() == {"pop_revives_owed": False}
    assert not (tmp_path / "state" / DEBT_FILE).exists()


async def test_a_handover_that_gives_up_is_an_error_over_http(answering_group: Any) -> None:
    async with beside(answering_group, await answering_group.add(), deadline_s=1) as made:
        status, answer = await made.hand_over()
        assert (status, "waiting for a successor" in answer["error"]) == (503, True)


async def test_how_to_end_is_answered_in_the_words_that_a_shell_looks_for(answering_group: Any) -> None:
    master, _ = await answering_group.add(), await answering_group.add()
    async with beside(answering_group, master) as made:
        assert '"how": "kill"' in await made.leave()


async def test_who_has_handed_over_waits_for_no_address(
    answering_group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold_port, "REACHED_WITHIN_S", 2 * WAIT_S)
    master, slave = await answering_group.add(), await answering_group.add()
    async with (
        beside(answering_group, master, hold_ms=2_000, hold_port=free_port()) as made,
        asyncio.timeout(WAIT_S),
    ):
        await made.wait_ready(200)
        assert '"how": "kill"' in await made.leave()
        assert slave.is_master


async def test_nobody_from_elsewhere_may_hand_over() -> None:
    for remote in (None, "10.0.0.1", "::ffff:10.0.0.1", "nonsense"):
        assert not http._is_loopback(remote)
    assert http._is_loopback("127.0.0.1")


# Settings.


async def test_a_companion_that_is_stopped_in_the_midst_of_a_failover_ends_when_no_client_is_held_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_holding, is_stopped, successor = asyncio.Event(), asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    class Hold:
        def __init__(self, *_: object) -> None:
            """Take what the real one takes."""

        async def run(self) -> None:
            """Hold until there is a successor, stopped or not; a second stop would end it before."""
            is_holding.set()
            try:
                await asyncio.Event().wait()
            finally:
                is_stopped.set()
                await successor.wait()
                ended.append("held to the end")

    monkeypatch.setattr("ha_sidecar.companion.companion.ClientHold", Hold)
    nobody = ("127.0.0.1", free_port())
    config = companion_config.CompanionConfig(
        cluster="c", group="g", broker=nobody, controllers=(nobody,), hold_ms=2_000
    )
    running = asyncio.create_task(Companion(config).run())
    async with asyncio.timeout(WAIT_S):
        await is_holding.wait()
        running.cancel()
        await is_stopped.wait()
        done, _ = await asyncio.wait([running], timeout=0.1)
        assert not done
        successor.set()
        await asyncio.wait([running])
    assert ended == ["held to the end"]
