"""The node agent between controllers that tell the truth or lie, and the flows of its node."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ha_sidecar.address import HostPort, host_port
from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.node_agent.agent import LIST_S, NodeAgent
from ha_sidecar.node_agent.config import NodeAgentConfig
from ha_sidecar.node_agent.flows import Flow, FlowKind
from ha_sidecar.node_agent.resetting import ResetCounts
from testkit.fakes.event_pages import EventPages, event_pages
from testkit.fakes.scripted_controllers import GROUP, HOST, Said, ScriptedController, scripted
from testkit.processes.ports import free_ports
from testkit.products.collector_in_process import until

OLD, NEW = "10.0.0.1", "10.0.0.2"
OLD_POD, NEW_POD = "10.244.1.5", "10.244.2.5"
DIRECT = {1: f"{OLD_POD}:1", 2: f"{NEW_POD}:1"}
BEFORE = Said(6, 1, direct=DIRECT)
AFTER = Said(7, 2, alive=(2,), direct={2: DIRECT[2]})
CLIENT = Flow(("10.244.3.7", 40_000), (OLD, 1), (OLD_POD, 1))
SLAVE = Flow(("10.244.3.8", 40_001), (OLD_POD, 10_912), (OLD_POD, 10_912))
STRANGERS = [Flow(("10.244.3.9", port), (NEW, 1), (NEW_POD, 1)) for port in range(20_000, 21_000)]
ELECTED: dict[str, Any] = {
    "kind": "MasterElected",
    "event_id": "main/g/1.7.0/1",
    "cluster": "main",
    "group": GROUP,
    "epoch": 7,
    "attrs": {
        "cause": "HeartbeatTimeout",
        "old_master_id": "1",
        "old_master_address": f"{OLD}:1",
        "new_master_id": "2",
    },
}
QUIET_S = 0.3
"""For how long a test watches that nothing happens."""


@dataclass
class Flows:
    """A node's flows, as a test says."""

    flows: list[Flow] = field(default_factory=lambda: [*STRANGERS, CLIENT, SLAVE])
    leads: str = OLD_POD
    translates: bool = True
    controllers_at: str | None = HOST
    was_reset: list[tuple[FlowKind, Flow]] = field(default_factory=list)
    lists: int = 0
    probes: int = 0
    batches: int = 0

    def flows_to(self, hosts: Collection[str]) -> list[Flow]:
        """Return all flows, strangers' too: the agent has to choose."""
        self.lists += 1
        return [flow for flow in self.flows if OLD_POD in hosts or flow.address[0] != OLD_POD]

    def leads_to(self, address: HostPort) -> str | None:
        """Return where the address leads."""
        self.probes += 1
        if address[0] == HOST:
            return self.controllers_at
        leads = self.leads if address[0] == OLD else NEW_POD
        return leads if self.translates else None

    def hosts_here(self, hosts: Iterable[str]) -> frozenset[str]:
        """Return the old master's pod if it is asked for."""
        return frozenset(hosts) & {OLD_POD}

    def reset(self, kind: FlowKind, flows: Iterable[Flow]) -> ResetCounts:
        """Remember and remove them."""
        self.batches += 1
        chosen = list(flows)
        self.flows = [flow for flow in self.flows if flow not in chosen]
        self.was_reset.extend((kind, flow) for flow in chosen)
        return ResetCounts(forged=len(chosen))

    def close(self) -> None:
        """Do nothing."""


@dataclass
class AgentStory:
    """The controllers, their pages, the node and the agent."""

    controllers: list[ScriptedController]
    pages: list[EventPages]
    flows: Flows
    agent: NodeAgent

    def say(self, said: Said) -> None:
        """Let all controllers say the same of the group."""
        for controller in self.controllers:
            controller.said = said

    def tell(self, event: dict[str, Any], *tellers: int) -> None:
        """Let some controllers tell an event."""
        for number in tellers:
            self.pages[number].tell(event)

    def metric(self, line: str) -> float:
        """Return the value of a metric."""
        text = self.agent.metrics.text().decode()
        (value,) = [found.split()[-1] for found in text.splitlines() if found.startswith(line + " ")]
        return float(value)

    async def until_reset(self, count: int) -> None:
        """Wait until so many flows were reset."""
        async with asyncio.timeout(10):
            await until(lambda: len(self.flows.was_reset) >= count)

    async def until_metric(self, line: str, value: float) -> None:
        """Wait until a metric has a value."""
        async with asyncio.timeout(10):
            await until(lambda: self.metric(line) == value)


@contextlib.asynccontextmanager
async def story(flows: Flows | None = None) -> AsyncIterator[AgentStory]:
    async with scripted(said=BEFORE) as controllers, event_pages(3) as pages:
        (port,) = free_ports(1)
        config = NodeAgentConfig(
            controllers=tuple(host_port(controller.address) for controller in controllers),
            controllers_http=tuple((HOST, page.port) for page in pages),
            http=(HOST, port),
            poll_interval_ms=100,
        )
        flows = flows or Flows()
        agent = NodeAgent(config, lambda: flows, judge_s=0.2)
        task = asyncio.create_task(agent.run())
        told = AgentStory(controllers, pages, flows, agent)
        try:
            async with asyncio.timeout(10):
                for page in pages:
                    await page.opened.wait()
                await until(lambda: agent.known_process(GroupName("main", GROUP), 1) is not None)
            yield told
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_slaves_are_reset_at_the_election_and_clients_when_the_address_has_moved() -> None:
    async with story() as told:
        told.say(AFTER)
        told.tell(ELECTED, 0, 1)
        await told.until_reset(1)
        assert told.flows.was_reset == [(FlowKind.HA, SLAVE)]
        told.flows.leads = NEW_POD
        await told.until_reset(2)
        assert told.flows.was_reset[1:] == [(FlowKind.CLIENT, CLIENT)]
        assert told.flows.flows == STRANGERS
        assert told.metric('rmqha_node_agent_resets_total{kind="client",way="forged"}') == 1
        assert told.metric('rmqha_node_agent_reset_seconds_count{kind="ha"}') == 1
        assert told.metric("rmqha_node_agent_replaced_masters_total") == 1
        assert told.metric("rmqha_node_agent_conntrack") == 1


async def test_while_an_address_stays_it_is_looked_at_often_and_connections_are_listed_rarely() -> None:
    async with story() as told:
        told.say(AFTER)
        told.tell(ELECTED, 0, 1)
        await told.until_reset(1)
        began_s = time.monotonic()
        told.flows.probes = told.flows.lists = 0
        async with asyncio.timeout(10):
            await until(lambda: told.flows.probes >= 20)
        assert told.flows.lists <= (time.monotonic() - began_s) / LIST_S + 1


async def test_a_client_that_dials_just_before_the_address_moves_is_reset_with_the_others() -> None:
    async with story() as told:
        told.say(AFTER)
        told.tell(ELECTED, 0, 1)
        await told.until_reset(1)
        late = replace(CLIENT, client=("10.244.3.7", 40_002))
        told.flows.flows.append(late)
        told.flows.leads = NEW_POD
        await told.until_reset(3)
        assert told.flows.was_reset[1:] == [(FlowKind.CLIENT, CLIENT), (FlowKind.CLIENT, late)]
        assert told.flows.batches == 2, "one of members, one of clients"


async def test_a_data_plane_without_conntrack_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async with story(Flows(controllers_at=None, translates=False)) as told:
        await until(lambda: "nothing can be reset on this node" in caplog.text)
        assert told.metric("rmqha_node_agent_conntrack") == 0


async def test_a_data_plane_that_translates_services_before_conntrack_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with story(Flows(translates=False)) as told:
        await until(lambda: "only connections between members can be reset" in caplog.text)
        assert told.metric("rmqha_node_agent_conntrack") == 0
        told.say(AFTER)
        told.tell(ELECTED, 0, 1)
        await told.until_reset(1)
        assert told.flows.was_reset == [(FlowKind.HA, SLAVE)], "a slave dials its master's pod itself"


async def test_a_lying_event_stream_resets_nothing() -> None:
    async with story() as told:
        told.flows.leads = NEW_POD
        for epoch in range(7, 300):
            told.tell(ELECTED | {"epoch": epoch, "event_id": f"forged/{epoch}"}, 2)
        told.pages[2].tell_line('{"kind": "MasterElected"')
        await told.until_metric("rmqha_node_agent_unreadable_events_total", 1)
        await asyncio.sleep(QUIET_S)
        assert not told.flows.was_reset
        assert told.metric("rmqha_node_agent_replaced_masters_total") == 0


async def test_a_line_that_is_too_deep_is_skipped_and_the_next_ones_are_read() -> None:
    async with story() as told:
        for page in told.pages:
            page.tell_line("[" * 100_000)
        await told.until_metric("rmqha_node_agent_unreadable_events_total", 3)
        told.say(AFTER)
        told.tell(ELECTED, 0, 1)
        await told.until_reset(1)


async def test_events_that_the_controllers_do_not_confirm_reset_nothing() -> None:
    async with story() as told:
        told.flows.leads = NEW_POD
        told.tell(ELECTED, 0, 1, 2)
        await told.until_metric('rmqha_node_agent_refusals_total{reason="stale"}', 1)
        assert not told.flows.was_reset


async def test_an_old_master_that_lives_keeps_its_connections() -> None:
    async with story() as told:
        told.flows.leads = NEW_POD
        told.say(Said(7, 2, alive=(1, 2), direct=DIRECT))
        told.tell(ELECTED, 0, 1, 2)
        await told.until_metric('rmqha_node_agent_refusals_total{reason="lives"}', 1)
        assert not told.flows.was_reset


async def test_a_master_that_comes_back_before_its_address_moves_keeps_its_clients() -> None:
    async with story() as told:
        told.say(AFTER)
        told.tell(ELECTED, 0, 1)
        await told.until_reset(1)
        told.say(Said(8, 1, direct=DIRECT))
        told.flows.leads = NEW_POD
        await told.until_metric('rmqha_node_agent_refusals_total{reason="stale"}', 1)
        assert told.flows.was_reset == [(FlowKind.HA, SLAVE)]


async def test_a_switchover_and_a_killed_master_reset_nothing() -> None:
    async with story() as told:
        told.flows.leads = NEW_POD
        told.say(AFTER)
        for cause in ("Designated", "ConnectionClosed"):
            told.tell(ELECTED | {"event_id": cause, "attrs": ELECTED["attrs"] | {"cause": cause}}, 0, 1)
        await told.until_metric('rmqha_node_agent_refusals_total{reason="not-for-silence"}', 2)
        assert not told.flows.was_reset


async def test_a_silent_majority_resets_nothing() -> None:
    async with story() as told:
        told.flows.leads = NEW_POD
        told.say(AFTER)
        for controller in told.controllers[:2]:
            controller.is_mute = True
        told.tell(ELECTED, 0, 1)
        await asyncio.sleep(QUIET_S)
        assert not told.flows.was_reset


async def test_elections_before_its_start_are_not_the_agents_concern() -> None:
    async with scripted(said=AFTER) as controllers, event_pages(3) as pages:
        for page in pages:
            page.tell(ELECTED)
        (port,) = free_ports(1)
        config = NodeAgentConfig(
            controllers=tuple(host_port(controller.address) for controller in controllers),
            controllers_http=tuple((HOST, page.port) for page in pages),
            http=(HOST, port),
        )
        flows = Flows(leads=NEW_POD)
        agent = NodeAgent(config, lambda: flows)
        task = asyncio.create_task(agent.run())
        async with asyncio.timeout(10):
            for page in pages:
                await page.opened.wait()
        await asyncio.sleep(QUIET_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        text = agent.metrics.text().decode()
        told = [line for line in text.splitlines() if line.startswith("rmqha_node_agent_refusals_total{")]
        assert told
        assert all(line.endswith(" 0.0") for line in told), "none was judged"
        assert not flows.was_reset
