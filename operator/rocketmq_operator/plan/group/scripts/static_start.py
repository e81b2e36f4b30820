"""How brokers with static roles start: the first one as master, the others as its slaves.

These are RocketMQ's deployment modes without controllers. A slave finds its master through the name servers.
With SYNC_MASTER a send waits for `inSyncReplicas` - 1 slaves, for 3 s at most: without them the message is on
the master alone, and its answer is FLUSH_SLAVE_TIMEOUT.

Source: RocketMQ 5.5.0 CommitLog.handleHA, GroupTransferService.doWaitTransfer, BrokerStartup.java.
"""

from collections.abc import Mapping
from typing import Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec, Durability
from rocketmq_operator.plan.common.java import JAVA_START, JAVA_WAIT
from rocketmq_operator.plan.group.scripts.start_scripts import FIND_PROGRAM, configured
from rocketmq_operator.plan.group.seed_container import STATIC_MARK

_OF_CONTROLLERS: Final = frozenset(
    {
        "allAckInSyncStateSet",
        "brokerHeartbeatInterval",
        "brokerId",
        "brokerRole",
        "controllerAddr",
        "controllerHeartBeatTimeoutMills",
        "minInSyncReplicas",
    }
)


def static_keys(spec: BrokerGroupSpec, owned: Mapping[str, str]) -> dict[str, str]:
    """Return the keys that the operator owns, for static roles; the start script adds id and role."""
    copies = spec.replicas if spec.durability is Durability.ALL_IN_SYNC else spec.copies
    kept = {key: value for key, value in owned.items() if key not in _OF_CONTROLLERS}
    return kept | {"enableControllerMode": "false", "inSyncReplicas": str(copies)}


def static_start(spec: BrokerGroupSpec, *, has_users: bool) -> str:
    """Return the start script; it marks the store, so that controllers know where it comes from."""
    master = "ASYNC_MASTER" if spec.durability is Durability.ASYNC else "SYNC_MASTER"
    roles = f"""case $POD_NAME in *-0) role={master} ;; *) role=SLAVE ;; esac
printf 'brokerId=%s\\nbrokerRole=%s\\n' "${{POD_NAME##*-}}" "$role" >>"$config"
mkdir -p "{STATIC_MARK.rpartition("/")[0]}" && : >"{STATIC_MARK}"
"""
    start = configured("broker.conf", spec, has_users=has_users) + roles
    return f'#!/bin/sh\n{start}{FIND_PROGRAM}{JAVA_START}{JAVA_WAIT}exit "$code"\n'
