"""How groups and replicas are named: values that may be dictionary keys and sort the same on every node."""

from collections.abc import Iterable
from typing import NamedTuple

from controller_core.remoting.numbers import BrokerId, LogOffset, MasterEpoch, SetEpoch

__all__ = (
    "BrokerId",
    "GroupKey",
    "LogOffset",
    "MasterEpoch",
    "ReplicaKey",
    "SetEpoch",
    "comma_list",
    "correlation_id",
)


class GroupKey(NamedTuple):
    """One broker group: RocketMQ's brokerName inside its cluster.

    RocketMQ's own controller uses the brokerName alone, so two clusters with equal names would share one
    group there.
    """

    cluster: str
    broker_name: str

    def __str__(self) -> str:
        return f"{self.cluster}/{self.broker_name}"


class ReplicaKey(NamedTuple):
    """One member of a group: the group's names and the brokerControllerId."""

    cluster: str
    broker_name: str
    broker_id: BrokerId

    @property
    def group(self) -> GroupKey:
        """The group that this member belongs to."""
        return GroupKey(self.cluster, self.broker_name)


def correlation_id(key: GroupKey, master_epoch: MasterEpoch) -> str:
    """Name one change of master, so that events of every source can be joined.

    `<cluster>/<group>/<epoch>`.
    """
    return f"{key.cluster}/{key.broker_name}/{master_epoch}"


def comma_list(ids: Iterable[BrokerId]) -> str:
    """Write broker ids as events carry them: `1,2,3`, empty for none."""
    return ",".join(str(broker_id) for broker_id in ids)
