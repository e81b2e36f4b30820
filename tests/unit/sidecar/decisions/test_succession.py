"""A successor can acknowledge as master with a copy, if the group had a third member for it."""

from dataclasses import replace

import pytest

from controller_core.remoting.bodies import HAConnectionRuntimeInfo, HARuntimeInfo
from ha_sidecar.decisions.succession import acknowledges, is_succeeded
from testkit.fakes.held_broker import BEFORE


@pytest.mark.parametrize(
    ("before", "epoch", "members", "succeeded"),
    [
        ((1, 2, 3), 4, (2, 3), True),
        ((1, 2, 3), 4, (2,), False),
        ((1, 2, 3), 3, (1, 2, 3), False),
        ((1, 2), 4, (2,), True),
        ((1, 2), 4, (), False),
    ],
    ids=["with a copy", "alone", "the same epoch", "no second member for a copy", "no member"],
)
def test_controllers_name_a_successor_by_a_later_epoch_and_a_copy_if_one_was_to_be_had(
    before: tuple[int, ...], epoch: int, members: tuple[int, ...], succeeded: bool
) -> None:
    now = replace(BEFORE, master_epoch=epoch, members=members)
    assert is_succeeded(replace(BEFORE, members=before), now) is succeeded


@pytest.mark.parametrize(
    ("is_master", "in_sync", "members", "does"),
    [
        (True, [True], (1, 2, 3), True),
        (True, [False], (1, 2, 3), False),
        (True, [], (1, 2, 3), False),
        (False, [True], (1, 2, 3), False),
        (True, [], (1, 2), True),
    ],
)
def test_a_successor_acknowledges_as_master_with_a_copy_if_a_third_member_is_to_have_one(
    is_master: bool, in_sync: list[bool], members: tuple[int, ...], does: bool
) -> None:
    slaves = tuple(HAConnectionRuntimeInfo("a:1", in_sync=one) for one in in_sync)
    answer = HARuntimeInfo(ha_connection_info=slaves, master=is_master)
    assert acknowledges(answer, replace(BEFORE, members=members)) is does
