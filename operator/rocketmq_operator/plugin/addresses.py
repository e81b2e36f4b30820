"""`kubectl rmqha bootstrap`: what applications use as their name server or gRPC endpoint, by listener.

The command shows the status that the operator wrote.
"""

from rocketmq_operator.api.cluster import RocketMQClusterStatus
from rocketmq_operator.api.names import CLUSTER_KIND
from rocketmq_operator.plugin.formatting import NOTHING, align_columns
from rocketmq_operator.plugin.queries import GroupServer, RequestError
from rocketmq_operator.plugin.result import CommandResult


async def bootstrap(server: GroupServer, namespace: str, name: str | None) -> CommandResult:
    """Return the addresses of a cluster, or of all clusters of the namespace.

    Raises:
        RequestError: no such cluster.
    """
    if name is None:
        clusters = await server.find(CLUSTER_KIND.kind, namespace, {})
    else:
        found = await server.get(CLUSTER_KIND.kind, namespace, name)
        if found is None:
            raise RequestError(f"RocketMQCluster {name} does not exist in namespace {namespace}")
        clusters = [found]
    table = [["CLUSTER", "LISTENER", "TYPE", "BROKERS", "ADDRESS", "GRPC"]]
    data = []
    for cluster in clusters:
        status = RocketMQClusterStatus.model_validate(cluster.get("status") or {})
        own = cluster["metadata"]["name"]
        table += [
            [
                *(own, one.name, one.type, one.brokers or NOTHING, one.address or NOTHING),
                one.grpc_address or NOTHING,
            ]
            for one in status.listeners
        ]
        listeners = [one.model_dump(by_alias=True, mode="json") for one in status.listeners]
        data.append({"cluster": own, "listeners": listeners})
    rows = [{"cluster": one["cluster"], **listener} for one in data for listener in one["listeners"]]
    return CommandResult(align_columns(table), data, rows)
