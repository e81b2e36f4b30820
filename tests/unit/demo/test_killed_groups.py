"""The groups that rounds of kills are held in, and the order of their victims."""

from random import Random

import pytest

from testkit.kill_rounds.groups import ALL_IN_SYNC, GROUPS, THREE_OF_FIVE, TWO_OF_THREE, KilledGroup
from testkit.kill_rounds.rounds import schedule

ALL = [group for groups in GROUPS.values() for group in groups]


@pytest.mark.parametrize("group", ALL, ids=lambda group: group.name)
def test_successive_rounds_take_all_victims_of_a_group(group: KilledGroup) -> None:
    count = len(group.victims)
    victims = [victims for victims, _ in schedule(Random(1), group, 2 * count)]
    assert sorted(victims[:count]) == sorted(victims[count:]) == sorted(group.victims)


@pytest.mark.parametrize("group", ALL, ids=lambda group: group.name)
def test_a_round_leaves_enough_members_for_writes_and_one_that_has_each_message(group: KilledGroup) -> None:
    copies = int(group.settings["inSyncReplicas"])
    for victims in group.victims:
        assert group.members - len(victims) >= int(group.settings["minInSyncReplicas"])
        assert len(victims) < copies


def test_their_names_say_their_numbers() -> None:
    numbers = {
        group.name: (group.settings["allAckInSyncStateSet"], group.settings["inSyncReplicas"], group.members)
        for group in (ALL_IN_SYNC, TWO_OF_THREE, THREE_OF_FIVE)
    }
    assert numbers == {
        "AllInSync, two brokers and a log replica": ("true", "2", 3),
        "Quorum, 2 of 3": ("false", "2", 3),
        "Quorum, 3 of 5": ("false", "3", 5),
    }
