"""The one verdict about many schedules: when it is valid, and when it says that it proves nothing."""

from collections import Counter
from dataclasses import replace

import pytest

from testkit.check.linearizability import SearchVerdict
from testkit.sim.runs.controller_schedules import ScheduleReport
from testkit.sim.runs.nemesis import Fault
from testkit.sim.runs.totals import INJECTED_MIN, Totals

GOOD = ScheduleReport(
    seed=1,
    violations=(),
    trace="a",
    simulated_s=20.0,
    injected=Counter({Fault.CUT: INJECTED_MIN}),
    effects=Counter({Fault.CUT: 3}),
    elections=2,
    leaders=1,
    calls=50,
    follower_reads=9,
    acknowledged=100,
    ambiguous=1,
    refused=2,
    lost_nodes=1,
)


@pytest.mark.parametrize(
    ("report", "again", "verdict", "status"),
    [
        pytest.param(GOOD, "a", SearchVerdict.VALID, 0, id="all well"),
        pytest.param(replace(GOOD, violations=("S1",)), "a", SearchVerdict.INVALID, 1, id="a violation"),
        pytest.param(replace(GOOD, effects=Counter()), "a", SearchVerdict.UNKNOWN, 2, id="a silent injector"),
        pytest.param(replace(GOOD, acknowledged=3), "a", SearchVerdict.UNKNOWN, 2, id="no traffic"),
        pytest.param(
            replace(GOOD, follower_reads=0), "a", SearchVerdict.UNKNOWN, 2, id="no read at a follower"
        ),
        pytest.param(GOOD, "b", SearchVerdict.UNKNOWN, 2, id="another run of the same seed"),
    ],
)
def test_a_run_is_judged(report: ScheduleReport, again: str, verdict: SearchVerdict, status: int) -> None:
    totals = Totals()
    totals.add(report)
    totals.repeat(replace(report, trace=again))
    assert (totals.verdict, totals.exit_status) == (verdict, status)
    assert list(totals.lines())[-1] == f"VERDICT {verdict}"
