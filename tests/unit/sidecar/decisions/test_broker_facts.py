"""The companion's facts from answers, and readiness and metrics from facts."""

import re
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest

from controller_core.remoting.bodies import (
    EpochEntryBody,
    EpochEntryCache,
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
    ReplicaIdentity,
    ReplicasInfo,
)
from ha_sidecar.companion.config import CompanionConfig
from ha_sidecar.companion.metrics import CompanionMetrics, CompanionState
from ha_sidecar.decisions.broker_facts import (
    BrokerFacts,
    GroupFacts,
    SlaveFacts,
    announced_address,
    broker_facts,
    group_facts,
    lag_bytes,
    readiness,
    slaves_by_name,
    with_controller_id,
)

MASTER = BrokerFacts(1, "a:1", True, 3, 1000, 900, ())
SLAVE = BrokerFacts(2, "", False, 3, 800, None, ())


def group(master_id: int | None, *members: int) -> GroupFacts:
    return GroupFacts(master_id, "a:1" if master_id else None, 3, members, ())


def test_a_master_s_confirm_offset_is_the_least_ack_that_counts() -> None:
    cache = EpochEntryCache(1, "g", "c", (EpochEntryBody(500, 2, 0), EpochEntryBody(2**63 - 1, 4, 500)), 1000)
    connections = (
        HAConnectionRuntimeInfo("/1.2.3.4:5", 100, True, 900),
        HAConnectionRuntimeInfo("/1.2.3.5:5", 990, False, 10),
    )
    found = broker_facts(cache, HARuntimeInfo(None, connections, 1, True, 1000))
    assert (found.last_epoch, found.confirm_offset) == (4, 900)
    assert found.slaves[1] == SlaveFacts("/1.2.3.5:5", 10, 990, False)
    assert found.epoch_starts == ((2, 0), (4, 500))


def test_a_slave_has_no_slaves_and_no_confirm_offset_of_its_own() -> None:
    stale = (HAConnectionRuntimeInfo("/1.2.3.4:5", 100, True, 900),)
    found = broker_facts(EpochEntryCache(2, "g", "c", (), 0), HARuntimeInfo(None, stale, 0, False, 0))
    assert found == BrokerFacts(2, "", False, -1, 0, None, ())


def test_a_group_is_read_from_both_halves_of_1006() -> None:
    inside = (ReplicaIdentity(True, "a:1", 3), ReplicaIdentity(False, "b:1", 1))
    info = ReplicasInfo(inside, "a:1", 3, 9, (ReplicaIdentity(True, "c:1", 2),), (3, 1), 4)
    found = group_facts(info)
    assert found == GroupFacts(
        3, "a:1", 9, (1, 3), ((1, "b:1", False), (2, "c:1", True), (3, "a:1", True)), (1, 3)
    )


@pytest.mark.parametrize(
    ("broker", "known", "ready", "words"),
    [
        (None, group(1, 1), False, "does not answer"),
        (MASTER, None, False, "no controller"),
        (MASTER, group(1, 1, 2), True, "master with"),
        (SLAVE, group(2, 2), False, "elected, not yet master"),
        (MASTER, group(2, 2), False, "slave not in"),
        (SLAVE, group(1, 1, 2), True, "slave in the SyncStateSet [1,2], id 2, epoch 3"),
        (SLAVE, group(1, 1), False, "slave not in"),
        (BrokerFacts(0, "", False, -1, 0, None, ()), group(None), False, "not in"),
    ],
)
def test_readiness_is_master_or_in_the_set(
    broker: BrokerFacts | None, known: GroupFacts | None, ready: bool, words: str
) -> None:
    found, text = readiness(broker, known)
    assert found is ready
    assert words in text


@pytest.mark.parametrize(
    ("others", "own_id"),
    [
        (((3, "10.0.0.2:5", False), (4, "10.0.0.2:5", True)), 4),
        (((3, "10.0.0.2:5", True), (4, "10.0.0.2:5", False)), 3),
        (((3, "10.0.0.2:5", False), (4, "10.0.0.2:5", False)), 4),
    ],
)
def test_a_broker_that_applied_twice_goes_by_the_id_that_lives_else_the_newest(
    others: tuple[tuple[int, str, bool], ...], own_id: int
) -> None:
    known = GroupFacts(own_id, "10.0.0.2:5", 4, (own_id,), others)
    nameless = replace(MASTER, broker_id=0, address="10.0.0.2:5")
    assert with_controller_id(nameless, known).broker_id == own_id
    assert readiness(with_controller_id(nameless, known), known)[0]


def test_a_master_is_known_by_its_address_since_it_says_id_0() -> None:
    others = ((1, "10.0.0.1:5", True), (2, "10.0.0.2:5", True))
    known = GroupFacts(2, "10.0.0.2:5", 3, (1, 2), others)
    nameless = replace(MASTER, broker_id=0, address="10.0.0.2:5")
    assert with_controller_id(nameless, known).broker_id == 2
    assert with_controller_id(nameless, None).broker_id == 0
    assert with_controller_id(replace(nameless, address="10.0.0.3:5"), known).broker_id == 0
    assert with_controller_id(SLAVE, known) == SLAVE
    assert not readiness(nameless, known)[0]


def test_a_broker_s_address_is_in_its_settings() -> None:
    assert announced_address("a=b\nlistenPort=10911\nbrokerIP1=10.0.0.1\nbrokerIP2=pod\n") == "10.0.0.1:10911"
    assert announced_address("listenPort=10911\n") == ""
    assert announced_address("") == ""


def test_what_nobody_said_is_not_a_lag_of_zero() -> None:
    assert lag_bytes(MASTER, None) == 0
    assert lag_bytes(SLAVE, None) is None
    assert lag_bytes(SLAVE, 1000) == 200
    assert lag_bytes(SLAVE, 700) == 0


def test_slaves_go_by_host_and_by_port_only_where_a_host_has_several() -> None:
    one, two, three = (SlaveFacts(f"/10.0.0.{host}", 1, 2, True) for host in ("1:5", "2:5", "2:6"))
    assert set(slaves_by_name([one])) == {"10.0.0.1"}
    assert set(slaves_by_name([one, two, three])) == {"10.0.0.1", "10.0.0.2:5", "10.0.0.2:6"}


def test_what_goes_over_the_wire_is_in_bytes_per_second() -> None:
    receiving = HARuntimeInfo(HAClientRuntimeInfo(transferred_byte_in_second=70), (), 0, False, 0)
    empty = EpochEntryCache(2, "g", "c", (), 0)
    assert broker_facts(empty, receiving, {}).received_bytes_per_s == 70
    sending = HARuntimeInfo(
        HAClientRuntimeInfo(), (HAConnectionRuntimeInfo("/1.2.3.4:5", 0, True, 9, 9, 80),), 1, True, 9
    )
    found = broker_facts(empty, sending, {})
    assert (found.received_bytes_per_s, found.slaves[0].sent_bytes_per_s) == (None, 80)


def test_metrics_leave_out_what_is_not_known() -> None:
    text = (
        CompanionMetrics("c", "g", lambda: CompanionState(None, None, None, controllers_up=False))
        .text()
        .decode()
    )
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line.partition("{")[0] for line in samples] == ["rmqha_ha_broker_up", "rmqha_ha_controllers_up"]


def test_counters_stay_while_the_broker_is_silent() -> None:
    known = [CompanionState(SLAVE, None, None, controllers_up=True)]
    metrics = CompanionMetrics("c", "g", lambda: known[0])
    at_first = [line for line in metrics.text().decode().splitlines() if "_total{" in line]
    assert at_first == [
        f'rmqha_ha_{name}_total{{broker_id="2",cluster="c",group="g"}} 0.0'
        for name in ("truncations", "reconnects")
    ]
    known[0] = CompanionState(None, None, None, controllers_up=True)
    assert [line for line in metrics.text().decode().splitlines() if "_total{" in line] == at_first


def test_metrics_of_a_slave_have_the_replica_s_names() -> None:
    known = CompanionState(SLAVE, group(1, 1, 2), 200, controllers_up=True)
    text = CompanionMetrics("c", "g", lambda: known).text().decode()
    for name, value in (("max_offset_bytes", 800), ("lag_bytes", 200), ("in_sync", 1), ("master_epoch", 3)):
        assert f'rmqha_ha_{name}{{broker_id="2",cluster="c",group="g"}} {value}.0' in text
    assert "confirm_offset_bytes" not in text


def test_every_metric_and_every_setting_is_in_the_reference() -> None:
    text = (Path(__file__).parents[4] / "docs" / "reference" / "companion.md").read_text()
    master = replace(MASTER, slaves=(SlaveFacts("/10.0.0.1:5", 1, 2, True),))
    known = CompanionState(master, group(1, 1), 0, controllers_up=True)
    metrics = CompanionMetrics("c", "g", lambda: known).text().decode()
    names = {line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE")}
    assert {name for name in names if name not in text} == set()
    assert len(names) == 18
    keys = {key.replace("_", "-") for key in get_type_hints(CompanionConfig)}
    assert {key for key in keys if not re.search(rf"^\|.*\b{key}\b.*\|", text, re.MULTILINE)} == set()


def test_a_broker_that_refuses_is_not_ready_and_not_called_silent() -> None:
    assert readiness(None, group(1, 1)) == (False, "the broker does not answer")
    words = "request 1007 was answered 16: username cannot be null"
    assert readiness(None, group(1, 1), words) == (False, f"the broker refuses: {words}")


def test_metrics_count_one_way_sends_of_held_clients() -> None:
    known = CompanionState(MASTER, None, None, controllers_up=True, held_oneways=3, held_oneways_lost=1)
    text = CompanionMetrics("c", "g", lambda: known).text().decode()
    assert 'rmqha_ha_held_oneway_sends_total{broker_id="1",cluster="c",group="g"} 3.0' in text
    assert 'rmqha_ha_held_oneway_sends_lost_total{broker_id="1",cluster="c",group="g"} 1.0' in text
