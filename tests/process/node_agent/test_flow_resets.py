"""Real connections of a pod and of its node, whose server was cut off silently, are reset; others stay."""

import contextlib
import errno
import select
import socket
import time
from collections.abc import Iterator

import pytest

from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.node_agent.flows import TRY_AGAIN_S, FlowChoice, FlowKind, Visibility, visibility
from ha_sidecar.node_agent.replaced import Replaced
from ha_sidecar.node_agent.resetting import NodeFlows, ResetCounts
from testkit.nodes.service_rules import PROXY_MODES, Version
from testkit.nodes.small_node import (
    OTHER_SERVICE,
    SERVICE,
    SERVICE_PORT,
    Place,
    SmallNode,
    lacking,
    small_node,
)

PORT, HA_PORT = SERVICE_PORT, 10912
RESET_MS_MAX = 5_000
"""A busy machine may pause; without a reset the client waits for many minutes."""
STRANGERS = 1_000


@pytest.fixture(params=PROXY_MODES)
def node(request: pytest.FixtureRequest) -> Iterator[SmallNode]:
    if why := lacking(request.param):
        pytest.skip(why)
    with small_node(request.param) as made:
        yield made


def pass_over(node: SmallNode, version: Version) -> tuple[dict[FlowKind, ResetCounts], float]:
    """List, choose and reset once, as the agent does; return the counts and how long it took, in ms."""

    def work() -> tuple[dict[FlowKind, ResetCounts], float]:
        started_s = time.monotonic()
        process, announced = (node.host(version, "old"), PORT), (SERVICE[version], PORT)
        choice = FlowChoice(Replaced(GroupName("c1", "orders"), 7, 1, announced, process), (HA_PORT,))
        with contextlib.closing(NodeFlows()) as table:
            flows = table.flows_to([process[0], announced[0]])
            leads = {address: table.leads_to(address) for address in choice.addresses_to_probe(flows)}
            known = {address: host for address, host in leads.items() if host is not None}
            chosen = choice.choose(flows, known, time.monotonic())
            counts = {kind: table.reset(kind, some) for kind, some in chosen.items()}
        return counts, (time.monotonic() - started_s) * 1000

    return node.entered("node", work)


def ended_with(connection: socket.socket, within_s: float = 0.0) -> int:
    """Return the error with which a connection ended, 0 if it is open."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.poll(within_s * 1000)
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


@pytest.mark.parametrize("version", ["IPv4", "IPv6"])
@pytest.mark.parametrize(("place", "error"), [("pod", errno.ECONNRESET), ("node", errno.ECONNABORTED)])
def test_a_client_of_a_silent_server_is_reset_and_a_thousand_others_stay(
    node: SmallNode, version: Version, place: Place, error: int
) -> None:
    listeners = [node.listen(pod, version, port) for pod in ("old", "new") for port in (PORT, HA_PORT)]
    strangers = node.connect(place, OTHER_SERVICE[version], PORT, STRANGERS)
    (client,) = node.connect(place, SERVICE[version], PORT)
    (slave,) = node.connect(place, node.host(version, "old"), HA_PORT)
    (direct,) = node.connect(place, node.host(version, "old"), PORT)
    node.cut()
    client.send(b"in flight")

    counts, _ = pass_over(node, version)
    assert ended_with(slave, 1.0) == error
    assert set(counts) == {FlowKind.HA}, "the address leads to the old pod still"
    assert ended_with(client) == 0

    node.move()
    counts, took_ms = pass_over(node, version)
    while (ended := ended_with(client, TRY_AGAIN_S)) == 0:
        # As the agent does: on a busy machine an answer may come after the exchange.
        again_counts, again_ms = pass_over(node, version)
        counts, took_ms = counts | again_counts, took_ms + again_ms
        assert took_ms < RESET_MS_MAX
    assert ended == error
    assert counts.keys() == {FlowKind.CLIENT}
    (again,) = node.connect(place, SERVICE[version], PORT)
    assert again.getpeername()[0] == SERVICE[version], "the successor accepts the next connection"

    assert [ended_with(stranger) for stranger in strangers] == [0] * STRANGERS
    assert ended_with(direct) == 0, "only the HA port and the announced address are the agent's"
    for connection in (*strangers, client, slave, direct, again, *listeners):
        connection.close()


@pytest.mark.parametrize("version", ["IPv4", "IPv6"])
def test_a_client_that_still_dials_the_silent_server_is_reset(node: SmallNode, version: Version) -> None:
    with node.listen("old", version, PORT), node.listen("new", version, PORT):
        node.cut()
        client = node.dial("pod", SERVICE[version], PORT)
        node.move()
        counts, _ = pass_over(node, version)
        assert counts[FlowKind.CLIENT].forged == 1
        assert ended_with(client, 1.0) in {errno.ECONNRESET, errno.ECONNREFUSED}
        client.close()


def test_a_node_without_conntrack_says_so(node: SmallNode) -> None:
    address = (node.host("IPv4", "new"), PORT)

    def where() -> str | None:
        with contextlib.closing(NodeFlows()) as table:
            return table.leads_to(address)

    with node.listen("new", "IPv4", PORT):
        assert node.entered("node", where) == address[0]
        assert node.entered("pod", where) is None, "this namespace has no rule that needs conntrack"


def test_a_node_that_translates_services_before_conntrack_says_so(node: SmallNode) -> None:
    host, service = node.host("IPv4", "new"), OTHER_SERVICE["IPv4"]

    def seen() -> Visibility | None:
        with contextlib.closing(NodeFlows()) as table:
            leads = {one: table.leads_to((one, PORT)) for one in (host, service)}
        return visibility({service: leads[service]}, {host: leads[host]})

    with node.listen("new", "IPv4", PORT):
        assert node.entered("node", seen) is Visibility.ALL
        node.hide(service)
        assert node.entered("node", seen) is Visibility.WITHOUT_SERVICES
