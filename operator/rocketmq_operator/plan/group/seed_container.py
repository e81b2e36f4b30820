"""The seed before a broker's first start.

This init container fills an empty volume from the group's other members.

It runs before each start of the pod, and a store that is a broker's already, or somebody's who brought it, is
left alone by a shell before any program is loaded: what a restart costs clients is measured in hundredths of
a second. What a seed does, and when it takes a broker's former id back: docs/reference/seed.md.
"""

from typing import Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec, Durability
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import Resources
from rocketmq_operator.plan.common import endpoints, names, parts
from rocketmq_operator.plan.common.objects import Json, Owner
from rocketmq_operator.plan.common.properties import plain_settings
from rocketmq_operator.plan.tls.clients import ClientsStage, sidecar_tls_keys

CONTAINER: Final = "seed"
RESOURCES: Final = Resources(cpu="250m", memory="512Mi")
"""As the kernel counts pages of the log that are written, which it gives back at any time."""
_STORE: Final = f"{names.STORE_PATH}/store"
STATIC_MARK: Final = f"{names.STORE_PATH}/store/staticRoles"
"""A file that brokers with static roles leave in their stores."""


def seed_conf(
    owner: Owner,
    spec: BrokerGroupSpec,
    cluster: RocketMQClusterSpec,
    stage: ClientsStage = ClientsStage.DISABLED,
) -> str:
    """Return what the seeds of all brokers of the group share.

    Args:
        owner: the BrokerGroup.
        spec: its spec.
        cluster: the spec of its cluster.
        stage: how far TLS with clients is.
    """
    values = {
        "cluster": spec.cluster,
        "group": owner.name,
        "store": _STORE,
        "controllers": endpoints.controller_addresses(spec.cluster, owner.namespace, cluster),
        "mapped-file-bytes": str(spec.log_file_bytes),
        # Elsewhere something may be acknowledged without a member that is gone.
        "reclaim": "true" if spec.durability is Durability.ALL_IN_SYNC else "false",
        "min-in-sync": str(spec.members_for_writes),
    }
    if cluster.has_users:
        values["credentials"] = names.CREDENTIALS_PATH
    return plain_settings(values | sidecar_tls_keys(stage))


def seed_start(find_address: str, spec: BrokerGroupSpec) -> str:
    """Return the start script; `find_address` is the part that sets `address` to what the pod announces.

    A store that had a static role becomes one for controllers first: the log of the only master stays, and
    that of a slave goes, because it has no history that could be compared with the master's.
    """
    return f"""#!/bin/sh
set -eu
store={_STORE}
if [ -e "{STATIC_MARK}" ]; then
  case $POD_NAME in *-0) keep=keep ;; *) keep=empty ;; esac
  ha-sidecar adopt {names.STORE_PATH} --keep "$keep" --mapped-file-bytes {spec.log_file_bytes}
  rm -f "{STATIC_MARK}"
fi
if [ -e "$store/brokerIdentity" ]; then exit 0; fi
if [ ! -e "$store/seed.json" ] && [ -n "$(ls "$store/commitlog" 2>/dev/null)" ]; then exit 0; fi
{find_address}exec ha-sidecar seed -c {names.CONFIG_PATH}/seed.conf --advertise "$address:{names.BROKER_PORT}"
"""


def seed(cluster: RocketMQClusterSpec, broker: Resources) -> Json:
    """Return the seed's container, beside a broker with these resources."""
    return parts.container(
        CONTAINER,
        cluster.images.replica,
        ["/bin/sh", f"{names.CONFIG_PATH}/start-seed.sh"],
        {},
        env=parts.pod_name_environment(),
        resources=parts.resources(RESOURCES, broker),
        volumeMounts=parts.mounts(data=True),
    )
