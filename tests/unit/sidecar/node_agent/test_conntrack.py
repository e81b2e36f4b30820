"""Connections as conntrack lists them, recorded with the rules of kube-proxy's modes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ha_sidecar.address import HostPort
from ha_sidecar.node_agent import conntrack
from ha_sidecar.node_agent.conntrack import Conntrack
from testkit.tree.files import ROOT

RECORDED = ROOT / "tests" / "testdata" / "conntrack"
SERVICES = {"10.96.0.11": ("10.244.3.", "10.244.1.5"), "fd00:96::11": ("fd00:3::", "fd00:1::5")}
"""Each address of the Service: the beginning of its clients' addresses, and the pod behind it."""


class RecordedKernel:
    """Answers each question with everything that was recorded."""

    entries: tuple[bytes, ...] = ()
    asked = 0

    def __init__(self, _protocol: int) -> None:
        """Open nothing."""

    def ask(self, request: dict[str, object], _kind: int, _flags: int) -> Iterator[bytes]:
        """Yield the entries of the family that is asked for."""
        type(self).asked += 1
        family = request["nfgen_family"]
        yield from (entry for entry in self.entries if entry[16] == family)


@pytest.fixture(params=["iptables", "nftables"])
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Conntrack:
    lines = (RECORDED / f"{request.param}.txt").read_text("ascii").splitlines()
    entries = tuple(bytes.fromhex(line) for line in lines if not line.startswith("#"))
    monkeypatch.setattr(RecordedKernel, "entries", entries)
    monkeypatch.setattr(RecordedKernel, "asked", 0)
    monkeypatch.setattr(conntrack, "Netlink", RecordedKernel)
    return Conntrack()


@pytest.mark.parametrize("service", SERVICES)
def test_clients_of_a_service_are_listed_with_the_pod_that_they_reach(table: Conntrack, service: str) -> None:
    clients, pod = SERVICES[service]
    flows = table.flows_to([service])
    assert sorted(flow.client[0] for flow in flows) == [f"{clients}1", f"{clients}7"], "the node and a pod"
    assert {(flow.address, flow.server) for flow in flows} == {((service, 10911), (pod, 10911))}


@pytest.mark.parametrize("pod", [pod for _, pod in SERVICES.values()])
def test_slaves_are_listed_at_the_address_of_the_pod(table: Conntrack, pod: str) -> None:
    end: HostPort = (pod, 10912)
    assert [(flow.address, flow.server) for flow in table.flows_to([pod])] == [(end, end)]


@pytest.mark.parametrize(("entries", "lists"), [("2000\n", 1), ("2001\n", 2), ("", 2)])
def test_a_small_table_is_listed_once_for_all_addresses_and_a_large_one_for_each(
    table: Conntrack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: str, lists: int
) -> None:
    count = tmp_path / "count"
    count.write_text(entries)
    monkeypatch.setattr(conntrack, "_COUNT", count)
    service, (_, pod) = next(iter(SERVICES.items()))
    flows = table.flows_to([service, pod])
    assert {flow.address for flow in flows} == {(service, 10911), (pod, 10912)}
    assert len(flows) == len(set(flows))
    assert RecordedKernel.asked == lists
