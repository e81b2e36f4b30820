"""The protocol's table, told a second time: which answers a group of a given state can give."""

import pytest

from testkit.check.registers import Alter, Read, Register, Transition, step

STATE = Register(1, 2, (1, 2), 5)
AFTER = Register(1, 2, (1,), 6)


def alter(code: int | None, **changes: object) -> Alter:
    values = {"master_id": 1, "master_epoch": 2, "set_epoch": 5, "wanted": (1,), "code": code, **changes}
    return Alter(**{"new_set_epoch": 6 if code == 0 else 0, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "after"),
    [
        pytest.param(alter(0), AFTER, id="done"),
        pytest.param(alter(None), AFTER, id="fate not known"),
        pytest.param(alter(0, new_set_epoch=7), None, id="done, with another epoch"),
        pytest.param(alter(0, set_epoch=4), None, id="done, from an old set"),
        pytest.param(alter(2001, set_epoch=4), STATE, id="fenced by the set's epoch"),
        pytest.param(alter(2001), None, id="fenced for no reason"),
        pytest.param(alter(2000, master_epoch=1), STATE, id="fenced by the master epoch"),
        pytest.param(alter(2002, master_id=3), STATE, id="not the master"),
        pytest.param(alter(2013, wanted=(1, 2)), STATE, id="nothing to change"),
        pytest.param(alter(2013, wanted=(2,)), STATE, id="without the master"),
        pytest.param(alter(2006, wanted=(1, 3)), STATE, id="not alive"),
        pytest.param(alter(2006, set_epoch=4), None, id="not alive, but fenced first"),
        pytest.param(Read(2, 5, (1, 2), 1), STATE, id="read"),
        pytest.param(Read(2, 4, (1, 2), 1), None, id="stale read"),
        pytest.param(Read(2, 5, (1, 2), None), None, id="read without the master"),
        pytest.param(Read(2, 5, (1, 2), None, tells_master=False), STATE, id="read that tells no master"),
        pytest.param(Transition(STATE, AFTER, "x"), AFTER, id="transition"),
        pytest.param(Transition(AFTER, STATE, "x"), None, id="transition of another state"),
    ],
)
def test_a_state_answers_what_it_must(call: Alter | Read | Transition, after: Register | None) -> None:
    assert step(STATE, call) == after
