"""The work of gathering a report grows with the rows, and not with the rows of all groups for each group."""

import time

from slo_pipeline.jobs.gather import report
from slo_pipeline.jobs.period import Period
from slo_pipeline.objectives.file import load

GROUPS = 2_000
STRETCHES = 10
CPU_S_MAX = 2.0
S = 1_000_000


def test_two_thousand_groups_are_gathered_in_linear_time() -> None:
    names = [f"g{number:04}" for number in range(GROUPS)]
    strip = [
        {"group": name, "ts": at * S, "good_s": 1, "bad_s": 0, "unknown_s": at}
        for at in range(STRETCHES)
        for name in names
    ]
    known = [{"group": name, "last_ts": 5 * S} for name in names]
    begin_s = time.process_time()
    made = report({"sli_strip": strip, "known_groups": known}, Period(0, 10 * S), load(), "many")
    assert time.process_time() - begin_s < CPU_S_MAX
    assert [group.name for group in made.groups] == names
    assert [one.unknown_s for one in made.groups[-1].strip] == list(range(STRETCHES))
