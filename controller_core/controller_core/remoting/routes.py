"""What name servers and brokers tell a client: routes, members of clusters, runtime figures.

Read only, and only the parts that this system uses; Java writes these bodies with bare map keys.

Source: TopicRouteData.java, BrokerData.java, QueueData.java, ClusterInfo.java, KVTable.java of 5.1.1 to
5.5.0.
"""

import msgspec

from controller_core.remoting.bodies import Body
from controller_core.remoting.header import JavaInt

MASTER_ID = 0
"""The broker id under which a name server lists a group's master."""


class BrokerData(Body, frozen=True):
    """One group's members as a name server knows them: id to `host:port`; the master has id 0."""

    broker_name: str
    cluster: str | None = None
    broker_addrs: dict[int, str] = msgspec.field(default_factory=dict)

    @property
    def master_address(self) -> str | None:
        """Address of the member listed as master; None without one."""
        return self.broker_addrs.get(MASTER_ID)


class QueueData(Body, frozen=True):
    """How many queues of a topic one group has; `perm` bits: 4 read, 2 write."""

    broker_name: str
    read_queue_nums: JavaInt = 0
    write_queue_nums: JavaInt = 0
    perm: JavaInt = 0


class TopicRouteData(Body, frozen=True):
    """Body of the answer to 105."""

    broker_datas: tuple[BrokerData, ...] = ()
    queue_datas: tuple[QueueData, ...] = ()


class ClusterInfo(Body, frozen=True):
    """Body of the answer to 106: groups by name, and names of groups by cluster."""

    broker_addr_table: dict[str, BrokerData] = msgspec.field(default_factory=dict)
    cluster_addr_table: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class KVTable(Body, frozen=True):
    """Body of the answer to 28: runtime figures by name, all as texts."""

    table: dict[str, str] = msgspec.field(default_factory=dict)
