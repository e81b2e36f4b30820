"""Which member answers at whose address.

A client of RocketMQ asks for routes every 30 s. Until then it sends to the address of the master it knew. So
when that master is gone, its address is given to the new one: the EndpointSlice behind the dead member's
Service points at the new master's pod, and the client's next try succeeds.

The rules, first that fits:

| the member | its address is served by |
|---|---|
| is the master | itself |
| its pod is not ready, is being deleted, or the controllers hold it for dead | the master |
| was replaced as master less than `HOLD` ago | the master |
| else | itself |

A master whose pod has no address or is being deleted takes over no other address. Its own leads to its
companion from then on, if it is about to be killed (`plan.group.slices.endpoint_slices`). One that is not
ready is: a new master is not ready for a moment, and returning the address to a member that cannot serve for
so long would not help clients.

A broker that was replaced and is back too soon would refuse what clients with an old route still send to it:
hence the third rule. A slave's address may point at the master for a while too: the master has all that a
slave has.

While no controller answers, the master is unknown, and every address stays with the member that its slice
names.

Nothing is remembered: the same look gives the same answer, after a crash of the operator too.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller_core.remoting.numbers import whole_number
from rocketmq_operator.api.names import EPOCH_ANNOTATION, GROUP
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import (
    Json,
    Live,
    Owner,
    belonging_labels,
    child,
    covers,
    family_of,
)
from rocketmq_operator.plan.group.children import BROKER_PORTS, broker_selector
from rocketmq_operator.plan.group.observed import ReportedFailover

ROUTE_POLL: Final = timedelta(seconds=30)
"""Source: RocketMQ 5.4.0 ClientConfig.java, pollNameServerInterval."""
HOLD: Final = ROUTE_POLL + timedelta(seconds=5)
SERVED_BY_LABEL: Final = f"{GROUP}/served-by"
SERVICE_NAME_LABEL: Final = "kubernetes.io/service-name"
SLICE_MANAGER_LABEL: Final = "endpointslice.kubernetes.io/managed-by"


@dataclass(frozen=True, slots=True)
class MemberEndpoint:
    """A broker as far as its address matters.

    Attributes:
        alive: whether the controllers hear from it, None if they were not asked.
        more_ips: addresses of its pod beside `ip`.
    """

    name: str
    ip: str
    ready: bool
    deleting: bool
    alive: bool | None
    more_ips: tuple[str, ...] = ()

    def ip_of(self, family: str) -> str:
        """Return the address of its pod in a family; empty if it lacks one."""
        return next((one for one in (self.ip, *self.more_ips) if one and family_of(one) == family), "")

    @property
    def serves(self) -> bool:
        """Whether clients would be answered at its pod's address."""
        return bool(self.ip) and self.ready and not self.deleting


def served_by(
    endpoints: Iterable[MemberEndpoint], master: str, replaced: Collection[str] = ()
) -> dict[str, str]:
    """Return for each broker the name of the one that answers at its address.

    Args:
        endpoints: all brokers of the group.
        master: the master's name, empty until one exists.
        replaced: brokers that lost mastership less than `HOLD` ago.
    """
    known = {endpoint.name: endpoint for endpoint in endpoints}
    master_endpoint = known.get(master)
    return {name: _serving_member(endpoint, master_endpoint, replaced) for name, endpoint in known.items()}


def _serving_member(
    endpoint: MemberEndpoint, master_endpoint: MemberEndpoint | None, replaced: Collection[str]
) -> str:
    if (
        master_endpoint is None
        or endpoint.name == master_endpoint.name
        or not master_endpoint.ip
        or master_endpoint.deleting
    ):
        return endpoint.name
    if not endpoint.serves or endpoint.alive is False or endpoint.name in replaced:
        return master_endpoint.name
    return endpoint.name


def recently_replaced(failovers: Iterable[ReportedFailover], now: datetime) -> frozenset[str]:
    """Return the addresses (host:port) of masters that were replaced less than `HOLD` ago."""
    return frozenset(
        failover.old_master_address
        for failover in failovers
        if failover.old_master_address and not failover.is_reelection and now - failover.proposed < HOLD
    )


def endpoint_slice(
    owner: Owner,
    cluster: str,
    member: str,
    server: MemberEndpoint,
    epoch: int = 0,
    *,
    ports: Mapping[str, int] = BROKER_PORTS,
    family: str = "IPv4",
) -> Json:
    """Return the EndpointSlice behind a member's Service; without an endpoint while the server lacks an IP.

    A Service of two families has a slice for each, because a slice holds addresses of one.

    Its endpoint is always ready: the operator has decided which member serves, and a broker that has just
    started must be reachable at the address it announced. It carries the deciding master epoch, 0 if unknown.
    """
    ip = server.ip_of(family)
    endpoints: list[Json] = [{"addresses": [ip], "conditions": {"ready": True}}] if ip else []
    labels = (
        broker_selector(owner.name)
        | belonging_labels(cluster, owner.name)
        | {SERVICE_NAME_LABEL: member, SLICE_MANAGER_LABEL: GROUP, SERVED_BY_LABEL: server.name}
    )
    body = child(
        owner,
        "EndpointSlice",
        member,
        labels=labels,
        addressType=family,
        endpoints=endpoints,
        ports=[{"name": name, "port": number, "protocol": "TCP"} for name, number in ports.items()],
    )
    body["metadata"]["annotations"] = {EPOCH_ANNOTATION: str(epoch)}
    return body


def deciding_epoch(slice_: Live) -> int:
    """Return the master epoch that a slice carries, 0 if it carries none."""
    text = str((slice_["metadata"].get("annotations") or {}).get(EPOCH_ANNOTATION, ""))
    return whole_number(text) or 0


def server_of(slice_: Live) -> str:
    """Return the member that serves an address by its slice, empty if the slice does not name it."""
    return str((slice_["metadata"].get("labels") or {}).get(SERVED_BY_LABEL, ""))


def slice_is_current(live: Live | None, wanted: Live) -> bool:
    """Tell whether a slice that exists already sends clients where they should go."""
    if live is None:
        return False

    def addresses(slice_: Live) -> list[str]:
        return [address for endpoint in slice_.get("endpoints") or [] for address in endpoint["addresses"]]

    def ports(slice_: Live) -> list[tuple[str, int]]:
        return sorted((port["name"], port["port"]) for port in slice_.get("ports") or [])

    same_way = addresses(live) == addresses(wanted) and ports(live) == ports(wanted)
    return same_way and server_of(live) == server_of(wanted)


def is_as_wanted(live: Live, wanted: Live) -> bool:
    """Tell whether a slice is current, and its labels let Kubernetes find it."""
    labels = live["metadata"].get("labels") or {}
    return slice_is_current(live, wanted) and covers(labels, wanted["metadata"]["labels"])


def brokers_only(endpoints: Mapping[str, MemberEndpoint], group: str) -> tuple[MemberEndpoint, ...]:
    """Return the places of brokers, without log replicas, in order of their names."""
    return tuple(endpoints[name] for name in sorted(endpoints) if names.is_member(name, group))
