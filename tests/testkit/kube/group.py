"""A broker group on the cluster: its state as people read it, and faults done to its pods.

A master's process is killed from inside its container: it is a child of the start script, and so not the
process 1 that cannot be killed from there. The same works on any cluster.
"""

from dataclasses import dataclass
from typing import Final

from testkit.kube.kubectl import Cluster, Json, KubeError, until

BROKER_CONTAINER: Final = "broker"
SUCCESSIONS_MAX: Final = 3
_DELETED_WITHIN_S: Final = 60.0
_HIBERNATED_WITHIN_S: Final = 180.0
JAVA_PIDS: Final = (
    'for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = java ] && echo ${p#/proc/}; done'
)
"""A shell's loop that prints the process ids of a container's Java processes."""


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group's status.

    Attributes:
        ready: the condition Ready is True.
        master: the master's pod, empty without a master.
        epoch: master epoch.
        in_sync: members in the SyncStateSet of all, such as 3/3.
        brokers: pods of brokers, the master included.
    """

    ready: bool
    master: str
    epoch: int
    in_sync: str
    brokers: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether the group is ready and every member in sync."""
        present, _, wanted = self.in_sync.partition("/")
        return self.ready and bool(wanted) and present == wanted


class KubeGroup:
    """One BrokerGroup."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        """Take where it is and its name."""
        self.cluster: Final = cluster
        self.name: Final = name

    async def view(self) -> GroupView:
        """Return its status."""
        status: Json = (await self.cluster.get("brokergroup", self.name)).get("status", {})
        conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
        members = [one["name"] for one in status.get("members", []) if one["role"] != "Log"]
        master = status.get("master", {})
        return GroupView(
            ready=conditions.get("Ready") == "True",
            master=master.get("name", ""),
            epoch=master.get("epoch", 0),
            in_sync=status.get("inSync", ""),
            brokers=tuple(members),
        )

    async def until_whole(self, timeout_s: float = 240.0) -> GroupView:
        """Wait until it is ready and every member in sync, and every pod ready."""

        async def holds() -> bool:
            pods = await self.cluster.find("pods", f"rocketmq-ha.dev/group={self.name}")
            return (await self.view()).whole and all(map(_is_ready, pods))

        await until(f"group {self.name} is whole", holds, timeout_s)
        return await self.view()

    async def until_at_home(self, timeout_s: float = 240.0) -> GroupView:
        """Wait until it is whole and every broker answers at its own address.

        Before that an address leads to another broker, and only the operator can change that.
        """
        view = await self.until_whole(timeout_s)

        async def holds() -> bool:
            return all([await self.served_by(broker) == broker for broker in view.brokers])

        await until(f"every broker of {self.name} has its own address", holds, timeout_s)
        return view

    async def until_fresh(self) -> GroupView:
        """Replace the pods of brokers that were started again, and wait until every broker is at home.

        Kubernetes starts a container again at once after its first end, and minutes later after more.
        """
        view = await self.until_at_home()
        for broker in view.brokers:
            if _restarts(await self.cluster.get("pod", broker)):
                await self.cluster.kubectl("delete", "pod", broker, timeout_s=_DELETED_WITHIN_S)
                view = await self.until_at_home()
        return view

    async def succeeded(self, first: GroupView) -> tuple[GroupView, GroupView]:
        """Kill the master; return the whole group with its successor, to which its address still leads.

        That lasts for half a minute. If the broker is back later, this is done again, at most
        `SUCCESSIONS_MAX` times. So the group as it was before the last kill is returned too.

        Raises:
            KubeError: the broker was never back in time.
        """
        for _ in range(SUCCESSIONS_MAX):
            await self.kill_java(first.master)
            await self.until_epoch_above(first.epoch)
            after = await self.until_whole()
            if await self.served_by(first.master) == after.master:
                return first, after
            first = await self.until_fresh()
        raise KubeError(f"{first.master} has its address back before {self.name} is whole")

    async def until_epoch_above(self, epoch: int, timeout_s: float = 60.0) -> GroupView:
        """Wait until a later master is in the status."""

        async def holds() -> bool:
            view = await self.view()
            return view.epoch > epoch and bool(view.master)

        await until(f"group {self.name} has an epoch above {epoch}", holds, timeout_s)
        return await self.view()

    async def hibernate(self) -> None:
        """Stop its pods and wait until they are gone."""
        what = f"brokergroup/{self.name}"
        await self.cluster.patch_spec(what, {"hibernated": True})
        words = ("wait", what, "--for=condition=Hibernated", f"--timeout={_HIBERNATED_WITHIN_S:.0f}s")
        await self.cluster.kubectl(*words, timeout_s=_HIBERNATED_WITHIN_S + 10)

    async def wake(self) -> None:
        """Start its pods again and wait until it is whole."""
        await self.cluster.patch_spec(f"brokergroup/{self.name}", {"hibernated": False})
        await self.until_whole()

    async def kill_java(self, pod: str) -> int:
        """Kill a broker's Java process with SIGKILL; return the time of the kill, UTC nanoseconds."""
        return await kill_java(self.cluster, pod, BROKER_CONTAINER)

    async def records(self) -> list[Json]:
        """Return its Failover records, the newest first."""
        found = await self.cluster.find("failovers", f"rocketmq-ha.dev/group={self.name}")
        return sorted(found, key=lambda one: -int(one["spec"]["newEpoch"]))

    async def served_by(self, pod: str) -> str:
        """Return who answers at a member's address."""
        slice_ = await self.cluster.get("endpointslice", pod)
        return str(slice_["metadata"]["labels"]["rocketmq-ha.dev/served-by"])


async def kill_java(cluster: Cluster, pod: str, container: str) -> int:
    """Kill the Java process of a container with SIGKILL; return the time of the kill, UTC nanoseconds.

    Raises:
        KubeError: the group is without a master.
    """
    script = f'java=$({JAVA_PIDS}); [ -n "$java" ] && date +%s%N && kill -9 $java'
    printed = (await cluster.shell(pod, container, script)).decode().split()
    if len(printed) != 1:
        raise KubeError(f"{pod}: no Java process was killed: {printed}")
    return int(printed[0])


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _restarts(pod: Json) -> int:
    """Return how often the broker's container of a pod was started again."""
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return sum(one["restartCount"] for one in statuses if one["name"] == BROKER_CONTAINER)
