"""Who answers at whose address: the table of the rules, row by row, and the slice that carries it out."""

from datetime import UTC, datetime, timedelta

import pytest

from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.group.observed import ReportedFailover
from rocketmq_operator.plan.group.takeover import (
    HOLD,
    MemberEndpoint,
    endpoint_slice,
    recently_replaced,
    served_by,
    slice_is_current,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNER = Owner("rocketmq-ha.dev/v1alpha1", "BrokerGroup", "orders", "shop", "uid-1")
NO_POD = MemberEndpoint("", "", ready=False, deleting=False, alive=None)

# Each word describes one broker, orders-0 first: up, starting (not ready), gone (no
# pod), leaving, deaf (not heard).
CASES = [
    ("all up", "up up", 0, "", "0 1"),
    ("a dead slave", "up gone", 0, "", "0 0"),
    ("a dead master, another elected", "gone up", 1, "", "1 1"),
    ("a dead master, no successor yet", "gone up", None, "", "0 1"),
    ("a master that the controllers do not hear, another elected", "deaf up", 1, "", "1 1"),
    ("a pod that is being deleted", "leaving up", 1, "", "1 1"),
    ("a replaced master that is back too soon", "up up", 1, "0", "1 1"),
    ("a replaced master that is back in time", "up up", 1, "", "0 1"),
    ("a new master that is not ready for a moment", "gone starting", 1, "", "1 1"),
    ("a new master that is being deleted", "gone leaving", 1, "", "0 1"),
    ("both gone", "gone gone", 1, "", "0 1"),
    ("a first start, no master", "starting starting", None, "", "0 1"),
    ("a slave that starts", "up starting", 0, "", "0 0"),
    ("a master that was replaced and is master again", "up up", 0, "0", "0 1"),
    ("of three, two are gone", "gone gone up", 2, "", "2 2 2"),
]


def _place(ordinal: int, word: str) -> MemberEndpoint:
    return MemberEndpoint(
        name=f"orders-{ordinal}",
        ip="" if word == "gone" else f"10.0.0.{ordinal}",
        ready=word in {"up", "deaf", "leaving"},
        deleting=word == "leaving",
        alive=word != "deaf",
    )


@pytest.mark.parametrize(
    ("name", "brokers", "master", "replaced", "served"), CASES, ids=[case[0] for case in CASES]
)
def test_an_address_is_served_by(
    name: str, brokers: str, master: int | None, replaced: str, served: str
) -> None:
    places = [_place(ordinal, word) for ordinal, word in enumerate(brokers.split())]
    chief = "" if master is None else f"orders-{master}"
    found = served_by(places, chief, {f"orders-{ordinal}" for ordinal in replaced.split()})
    assert found == {f"orders-{ordinal}": f"orders-{server}" for ordinal, server in enumerate(served.split())}


def _failover(age: timedelta) -> ReportedFailover:
    return ReportedFailover(
        cluster="main",
        group="orders",
        cause="ConnectionClosed",
        old_master_address="10.96.0.1:10911",
        new_master_address="10.96.0.2:10911",
        had_master=True,
        old_epoch=1,
        new_epoch=2,
        sync_state_set_before=(1, 2),
        sync_state_set_after=(2,),
        unclean=False,
        times={"proposed": NOW - age},
    )


def test_a_replaced_master_waits_until_clients_have_asked_for_routes() -> None:
    assert recently_replaced([_failover(HOLD - timedelta(seconds=1))], NOW) == {"10.96.0.1:10911"}
    assert recently_replaced([_failover(HOLD)], NOW) == frozenset()
    assert HOLD.total_seconds() > 30


def test_a_slice_names_the_server_and_its_pod() -> None:
    server = MemberEndpoint("orders-1", "10.0.0.1", ready=True, deleting=False, alive=True)
    body = endpoint_slice(OWNER, "main", "orders-0", server)
    assert body["endpoints"] == [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}]
    assert body["metadata"]["labels"]["kubernetes.io/service-name"] == "orders-0"
    assert body["metadata"]["labels"]["rocketmq-ha.dev/served-by"] == "orders-1"
    assert [port["port"] for port in body["ports"]] == [10911, 10909]


def test_a_slice_is_written_again_only_when_it_leads_elsewhere() -> None:
    own = endpoint_slice(
        OWNER,
        "main",
        "orders-0",
        MemberEndpoint("orders-0", "10.0.0.1", ready=True, deleting=False, alive=True),
    )
    other = endpoint_slice(
        OWNER,
        "main",
        "orders-0",
        MemberEndpoint("orders-1", "10.0.0.2", ready=True, deleting=False, alive=True),
    )
    nowhere = endpoint_slice(OWNER, "main", "orders-0", NO_POD)
    assert slice_is_current(own, own)
    assert not slice_is_current(own, other)
    assert not slice_is_current(own, nowhere)
    assert not slice_is_current(None, nowhere)
    more = endpoint_slice(
        OWNER,
        "main",
        "orders-0",
        MemberEndpoint("orders-0", "10.0.0.1", ready=True, deleting=False, alive=True),
        ports={"remoting": 10911, "fast": 10909, "grpc": 8081},
    )
    assert not slice_is_current(own, more)
    # The API server drops empty lists.
    assert slice_is_current({key: value for key, value in nowhere.items() if key != "endpoints"}, nowhere)
