"""The groups that rounds of kills are held in: their members, their settings, and their victims.

Settings are those that the operator writes for a group of that durability. A round kills as many members at
once as the durability allows: one where two copies are needed, two where three are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.api.broker_group import BrokerGroupSpec, Durability
from rocketmq_operator.plan.group.children import durability_keys

MASTER, SLAVE, REPLICA = "master", "slave", "replica"


@dataclass(frozen=True, slots=True)
class KilledGroup:
    """A group for rounds of kills.

    Attributes:
        name: of the figures.
        brokers: how many.
        log_replicas: 1 or 0.
        settings: of the brokers, beside the usual ones.
        victims: members that a round kills together; successive rounds take each of these once.
    """

    name: str
    brokers: int
    log_replicas: int
    settings: Mapping[str, str]
    victims: tuple[tuple[str, ...], ...]

    @property
    def members(self) -> int:
        """How many members the group has."""
        return self.brokers + self.log_replicas


def _settings(durability: Durability, brokers: int, **numbers: int) -> dict[str, str]:
    spec = {"cluster": "c", "storage": {"size": "1Gi"}, "durability": durability, "replicas": brokers}
    return durability_keys(BrokerGroupSpec.model_validate(spec | numbers))


ALL_IN_SYNC: Final = KilledGroup(
    name="AllInSync, two brokers and a log replica",
    brokers=2,
    log_replicas=1,
    settings=_settings(Durability.ALL_IN_SYNC, 2),
    victims=((MASTER,), (SLAVE,), (REPLICA,)),
)
TWO_OF_THREE: Final = KilledGroup(
    name="Quorum, 2 of 3",
    brokers=3,
    log_replicas=0,
    settings=_settings(Durability.QUORUM, 3),
    victims=((MASTER,), (MASTER,), (SLAVE,)),
)
THREE_OF_FIVE: Final = KilledGroup(
    name="Quorum, 3 of 5",
    brokers=5,
    log_replicas=0,
    settings=_settings(Durability.QUORUM, 5, inSyncReplicas=3),
    victims=((MASTER, SLAVE), (MASTER,), (SLAVE, SLAVE)),
)

GROUPS: Final[Mapping[str, tuple[KilledGroup, ...]]] = {
    "all-in-sync": (ALL_IN_SYNC,),
    "quorum": (TWO_OF_THREE, THREE_OF_FIVE),
    "2-of-3": (TWO_OF_THREE,),
    "3-of-5": (THREE_OF_FIVE,),
}
"""By the word of the command line."""
