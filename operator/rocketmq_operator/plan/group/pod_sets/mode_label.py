"""The label that tells which StatefulSet has brokers with static roles."""

from typing import Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.members.roles import RoleMode
from rocketmq_operator.api.names import GROUP

MODE_LABEL: Final = f"{GROUP}/mode"
"""Of StatefulSets whose brokers have static roles."""


def mode_labels(spec: BrokerGroupSpec) -> dict[str, str]:
    """Return the label of the brokers' StatefulSet that tells its mode; none for controllers."""
    return {MODE_LABEL: str(spec.mode)} if spec.mode is RoleMode.STATIC else {}
