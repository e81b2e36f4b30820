"""Which answers belong to a group's history after all controllers lost their stores."""

from types import SimpleNamespace

from testkit.check.registers import Read
from testkit.sim.checks.invariants import Invariants
from testkit.sim.checks.observations import Observations

LATE = Read(2, 9, (2, 3), 2)
FIRST = Read(1, 1, (1,), 1)


def test_an_answer_of_an_earlier_life_that_arrives_late_is_no_part_of_the_new_history() -> None:
    loop = SimpleNamespace(now_s=10.0)
    observed = Observations(loop, Invariants())  # type: ignore[arg-type] # only the time is read
    observed.begin_anew()
    loop.now_s = 11.0
    observed.call("b0", 9.9, LATE)
    observed.call("b0", 10.0, FIRST)
    assert [interval.call for interval in observed.groups["b0"].intervals()] == [FIRST]
