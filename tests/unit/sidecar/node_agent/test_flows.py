"""Which flows of a node are reset."""

from dataclasses import replace

import pytest

from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.node_agent.flows import (
    TRIES_MAX,
    TRY_AGAIN_S,
    Flow,
    FlowChoice,
    FlowKind,
    Visibility,
    same_host,
    visibility,
)
from ha_sidecar.node_agent.replaced import Replaced

OLD, OLD_POD, NEW_POD = "10.96.0.11", "10.244.1.5", "10.244.2.5"
REPLACED = Replaced(GroupName("c1", "orders"), 7, 1, (OLD, 10911), (OLD_POD, 10911))
CLIENT = Flow(("10.244.3.7", 40000), (OLD, 10911), (OLD_POD, 10911))
FAST = Flow(("10.244.3.7", 40001), (OLD, 10909), (OLD_POD, 10909))
HA = Flow(("10.244.3.8", 50000), (OLD_POD, 10912), (OLD_POD, 10912))
MOVED = {(OLD, 10911): NEW_POD, (OLD, 10909): NEW_POD}


def choice(replaced: Replaced = REPLACED) -> FlowChoice:
    return FlowChoice(replaced, (10912,))


def strangers() -> list[Flow]:
    """Return a thousand flows, none of which is the agent's to reset."""
    kinds = [
        lambda port: Flow(("10.244.3.7", port), ("10.96.0.12", 10911), (NEW_POD, 10911)),  # the new master
        lambda port: Flow(("10.244.3.7", port), (OLD, 10911), (NEW_POD, 10911)),  # moved already
        lambda port: Flow(("10.244.3.7", port), (OLD_POD, 10911), (OLD_POD, 10911)),  # not by the address
        lambda port: Flow(("10.244.3.7", port), (OLD_POD, 9882), (OLD_POD, 9882)),  # the companion's port
        lambda port: Flow(("10.244.3.8", port), (NEW_POD, 10912), (NEW_POD, 10912)),  # the new master's HA
        lambda port: Flow((OLD_POD, port), ("10.96.0.1", 443), ("10.250.0.1", 6443)),  # from the old pod
        lambda port: Flow(("10.244.3.9", port), ("10.96.7.7", 80), (OLD_POD, 10911)),  # by another Service
        lambda port: Flow(("10.244.3.9", port), ("93.184.216.34", 10912), ("93.184.216.34", 10912)),
    ]
    return [kinds[number % len(kinds)](20_000 + number) for number in range(1_000)]


def test_flows_to_the_ha_port_are_reset_at_once() -> None:
    assert choice().choose([HA, CLIENT], {}, 0.0) == {FlowKind.HA: (HA,)}


def test_a_log_replica_keeps_its_flow_because_it_has_parted_by_itself() -> None:
    with_replica = replace(REPLACED, log_replicas=frozenset({"10.244.3.4"}))
    of_replica = replace(HA, client=("10.244.3.4", 50001))
    assert choice(with_replica).choose([HA, of_replica], {}, 0.0) == {FlowKind.HA: (HA,)}


def test_clients_are_reset_when_their_port_leads_elsewhere() -> None:
    assert choice().choose([CLIENT, FAST], {(OLD, 10911): NEW_POD, (OLD, 10909): OLD_POD}, 0.0) == {
        FlowKind.CLIENT: (CLIENT,)
    }


def test_clients_whose_port_was_not_probed_wait() -> None:
    assert not choice().choose([CLIENT, FAST], {}, 0.0)


def test_a_thousand_unrelated_flows_stay() -> None:
    flows = strangers()
    chosen = choice().choose([*flows[:500], CLIENT, HA, *flows[500:]], MOVED, 0.0)
    assert chosen == {FlowKind.HA: (HA,), FlowKind.CLIENT: (CLIENT,)}
    assert choice().addresses_to_probe(flows) == ()


def test_only_addresses_that_clients_use_are_probed() -> None:
    assert choice().addresses_to_probe([CLIENT, FAST, HA]) == ((OLD, 10909), (OLD, 10911))


def test_clients_that_came_by_another_member_s_address_are_reset_when_that_leads_elsewhere() -> None:
    lent = "10.96.0.12"
    chosen = choice(replace(REPLACED, others=frozenset({lent, "10.96.0.13"})))
    by_lent = Flow(("10.244.3.7", 40002), (lent, 10911), (OLD_POD, 10911))
    at_home = Flow(("10.244.3.7", 40003), ("10.96.0.13", 10911), ("10.244.2.9", 10911))
    flows = [CLIENT, by_lent, at_home]
    assert chosen.addresses_to_probe(flows) == ((OLD, 10911), (lent, 10911))
    moved = {(OLD, 10911): OLD_POD, (lent, 10911): NEW_POD, ("10.96.0.13", 10911): "10.244.2.9"}
    assert chosen.choose(flows, moved, 0.0) == {FlowKind.CLIENT: (by_lent,)}


def test_an_address_that_cannot_move_keeps_its_clients() -> None:
    fixed = Replaced(GroupName("c1", "orders"), 7, 1, (OLD_POD, 10911), (OLD_POD, 10911))
    direct = Flow(("10.244.3.7", 40000), (OLD_POD, 10911), (OLD_POD, 10911))
    assert choice(fixed).choose([direct, HA], {(OLD_POD, 10911): NEW_POD}, 0.0) == {FlowKind.HA: (HA,)}


def test_a_flow_is_tried_a_few_times_with_pauses() -> None:
    chosen = choice()
    times = [number * TRY_AGAIN_S / 2 for number in range(20)]
    tried = []
    for now_s in times:
        if chosen.choose([CLIENT], MOVED, now_s):
            chosen.note_tried([CLIENT], now_s)
            tried.append(now_s)
    assert tried == times[0 : 2 * TRIES_MAX : 2]


@pytest.mark.parametrize(
    ("one", "other"), [("::ffff:10.0.0.1", "10.0.0.1"), ("fd00::0:1", "fd00::1"), ("broker", "broker")]
)
def test_an_address_may_be_written_in_several_ways(one: str, other: str) -> None:
    assert same_host(one, other)
    assert not same_host(one, "10.0.0.2")


CONTROLLER = {"10.244.0.4": "10.244.0.4"}


@pytest.mark.parametrize(
    ("services", "hosts", "expected"),
    [
        ({OLD: OLD_POD}, CONTROLLER, Visibility.ALL),
        ({OLD: None, "10.96.0.12": NEW_POD}, {}, Visibility.ALL),
        ({OLD: None}, CONTROLLER, Visibility.WITHOUT_SERVICES),
        ({OLD: OLD}, CONTROLLER, Visibility.WITHOUT_SERVICES),
        ({OLD: None}, {"10.244.0.4": None}, Visibility.NONE),
        ({}, CONTROLLER, Visibility.ALL),
        ({}, {"10.244.0.4": None}, Visibility.NONE),
        ({}, {}, None),
    ],
)
def test_what_conntrack_knows_follows_from_connections_just_dialled(
    services: dict[str, str | None], hosts: dict[str, str | None], expected: Visibility | None
) -> None:
    assert visibility(services, hosts) is expected
