"""The controllers' settings that the spec names and that mqadmin can change while they run.

`mqadmin updateControllerConfig` changes a setting of the controllers that it names. Each of them keeps the
change over restarts, where it overrides the file that the operator writes. The operator does not change it
back, because a person may have needed it in an emergency: it compares and reports.
"""

from typing import Final

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.plan.cluster.observed import ObservedCluster
from rocketmq_operator.plan.common import names

NODE_TIMEOUT: Final = "nodeTimeoutMs"
SETTINGS_IN_SYNC: Final = "InSync"


def live_settings(spec: RocketMQClusterSpec) -> dict[str, str]:
    """Return the values of the spec by the controllers' keys."""
    return {
        "enableElectUncleanMaster": str(spec.controllers.enable_elect_unclean_master).lower(),
        "notifyBrokerRoleChanged": str(spec.controllers.notify_broker_role_changed).lower(),
        # The address of a broker that was replaced leads to its successor for a while, even if it is elected
        # again in that time.
        "directAddresses": "true",
        NODE_TIMEOUT: str(spec.failover.node_timeout_ms),
    }


def settings_finding(observed: ObservedCluster) -> Finding:
    """Return whether all controllers run with the settings of the spec."""
    if observed.spec.controllers.ref is not None:
        text = f"see RocketMQCluster {observed.sharing.home}, which has the controllers"
        return make_finding(SETTINGS_IN_SYNC, holds=None, reason="OfAnotherCluster", message=text)
    wanted, found, silent = live_settings(observed.spec), [], []
    for ordinal in range(observed.spec.controllers.replicas):
        pod = names.controller(observed.owner.name, ordinal)
        if observed.controllers is None or observed.controllers.at(ordinal).has_log is None:
            silent.append(pod)
            continue
        changed = observed.controllers.at(ordinal).changed_settings
        differing = [
            f", {key} is {changed[key]}, not {value}"
            for key, value in wanted.items()
            if changed.get(key, value) != value
        ]
        if differing:
            found.append(pod + "".join(differing))
    if found:
        text = f"{'; '.join(found)}: change the spec, or change it back with mqadmin updateControllerConfig"
        return make_finding(SETTINGS_IN_SYNC, holds=False, reason="Drifted", message=text)
    if silent:
        text = f"these controllers do not answer: {', '.join(silent)}"
        return make_finding(SETTINGS_IN_SYNC, holds=None, reason="NotCompared", message=text)
    text = "all controllers run with the settings of the spec"
    return make_finding(SETTINGS_IN_SYNC, holds=True, reason="Applied", message=text)
