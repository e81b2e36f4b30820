"""Make the command for the log from a typed request: the request and the values that the leader adds.

A command is judged from the log entry alone, so everything the state cannot know is put in here, by the
leader, at the moment it proposes: the time, and who of the group is alive with which epoch, offset and
priority.

The cluster: 1001, and 1011 without a cluster, name a group by its brokerName alone. What the sender's
heartbeats over the same connection said tells the cluster; otherwise it stays empty and the state looks the
name up.

Never here: a decision. Whether a request is right is judged when its command is applied.
"""

from collections.abc import Callable
from typing import Final

from controller_core.groups import commands
from controller_core.groups.commands import Cause, LiveBroker, Suspicion
from controller_core.groups.elections.election import FailureReason
from controller_core.groups.keys import BrokerId, GroupKey, ReplicaKey
from controller_core.remoting import headers
from controller_core.remoting.bodies import SyncStateSet
from controller_core.server.clock import Clock

AliveOf = Callable[[str, str], tuple[LiveBroker, ...]]
"""Given cluster (may be empty) and brokerName: the members that are alive now."""
AliveIdsOf = Callable[[str, str], tuple[BrokerId, ...]]
"""The same, their ids alone."""
_LEARNER: Final = str(FailureReason.DESIGNATED_NOT_ELECTABLE)


class CommandMaker:
    """Makes commands with the time and the living members of this moment."""

    def __init__(
        self,
        clock: Clock,
        alive_of: AliveOf,
        alive_ids_of: AliveIdsOf,
        unclean_allowed: Callable[[], bool],
        is_learner: Callable[[ReplicaKey], bool] = lambda _key: False,
    ) -> None:
        self._clock = clock
        self._alive_of = alive_of
        self._alive_ids_of = alive_ids_of
        self._unclean_allowed = unclean_allowed
        self._is_learner = is_learner

    def apply_broker_id(self, header: headers.ApplyBrokerIdRequestHeader) -> commands.ApplyBrokerId:
        """Make the command of request 1013."""
        return commands.ApplyBrokerId(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            stamp=self._clock.stamp(),
            broker_id=BrokerId(header.applied_broker_id),
            check_code=header.register_check_code,
            log_replica=header.replica_kind == headers.REPLICA_KIND_LOG,
        )

    def register_broker(
        self, header: headers.RegisterBrokerToControllerRequestHeader, *, take_up: bool
    ) -> commands.RegisterBroker:
        """Make the command of request 1003; `take_up` records an id that is unknown."""
        return commands.RegisterBroker(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            stamp=self._clock.stamp(),
            broker_id=BrokerId(header.broker_id),
            address=header.broker_address,
            log_replica=header.replica_kind == headers.REPLICA_KIND_LOG,
            alive=self._alive_ids_of(header.cluster_name, header.broker_name),
            take_up=take_up,
        )

    def alter_sync_state_set(
        self, header: headers.AlterSyncStateSetRequestHeader, wanted: SyncStateSet, cluster: str
    ) -> commands.AlterSyncStateSet:
        """Make the command of request 1001; `cluster` is empty when the sender's is not known."""
        return commands.AlterSyncStateSet(
            cluster=cluster,
            broker_name=header.broker_name,
            stamp=self._clock.stamp(),
            master_id=BrokerId(header.master_broker_id),
            master_epoch=header.master_epoch,
            members=tuple(sorted(map(BrokerId, wanted.sync_state_set))),
            set_epoch=wanted.sync_state_set_epoch,
            alive=self._alive_ids_of(cluster, header.broker_name),
        )

    def elect_master(self, header: headers.ElectMasterRequestHeader, cluster: str) -> commands.ElectMaster:
        """Make the command of request 1002, asked by a broker or designated by an administrator."""
        nobody = header.broker_id == headers.BROKER_ID_NONE
        designate = header.designate_elect and not nobody
        designated = ReplicaKey(cluster, header.broker_name, BrokerId(header.broker_id))
        return commands.ElectMaster(
            cluster=cluster,
            broker_name=header.broker_name,
            stamp=self._clock.stamp(),
            requester_id=None if nobody else BrokerId(header.broker_id),
            designate=designate,
            cause=Cause.DESIGNATED if header.designate_elect else Cause.BROKER_REQUEST,
            alive=self._alive_of(cluster, header.broker_name),
            unclean_allowed=self._unclean_allowed(),
            withheld=_LEARNER if designate and self._is_learner(designated) else "",
        )

    def elect_after(self, key: GroupKey, cause: Cause, suspicion: Suspicion | None) -> commands.ElectMaster:
        """Make the leader's own command: the group's master is dead or missing."""
        return commands.ElectMaster(
            cluster=key.cluster,
            broker_name=key.broker_name,
            stamp=self._clock.stamp(),
            cause=cause,
            alive=self._alive_of(key.cluster, key.broker_name),
            unclean_allowed=self._unclean_allowed(),
            suspicion=suspicion,
        )

    def clean_broker_data(
        self, header: headers.CleanControllerBrokerDataRequestHeader, cluster: str
    ) -> commands.CleanBrokerData:
        """Make the command of request 1011."""
        return commands.CleanBrokerData(
            cluster=cluster,
            broker_name=header.broker_name,
            stamp=self._clock.stamp(),
            ids_text=header.broker_controller_ids_to_clean or "",
            clean_living=header.is_clean_living_broker,
            alive=self._alive_ids_of(cluster, header.broker_name),
        )
