"""Whole controllers with modelled brokers under faults drawn from a seed; `make sim` runs thousands of these.

A failure names its seed; `make sim SEEDS=1 FIRST=n` replays it.
"""

import os
import subprocess
import sys

import pytest

from testkit.mutants.canaries import CANARIES
from testkit.sim.runs.controller_schedules import (
    run_beginning_anew,
    run_schedule,
    run_with_an_empty_later_epoch,
)
from testkit.sim.runs.totals import Totals

SCHEDULES = 24
BATCH = 6
ANEW_SCHEDULES = 12


@pytest.mark.parametrize("first", range(0, SCHEDULES, BATCH))
def test_no_schedule_breaks_a_promise_and_everything_recovers(first: int) -> None:
    totals = Totals()
    for seed in range(first, first + BATCH):
        report = run_schedule(seed)
        assert report.violations == (), f"make sim SEEDS=1 FIRST={seed}"
        totals.add(report)
    assert totals.elections > BATCH
    assert totals.acknowledged > 20 * BATCH
    assert totals.calls > 20 * BATCH
    assert totals.follower_reads > 5 * BATCH
    assert sum(totals.effects.values()) > 5 * BATCH


@pytest.mark.parametrize("first", range(0, ANEW_SCHEDULES, BATCH))
def test_controllers_that_lose_their_stores_lose_no_message_and_no_member(first: int) -> None:
    for seed in range(first, first + BATCH):
        report = run_beginning_anew(seed)
        assert report.violations == (), f"seed {seed}"
        assert report.acknowledged > 0


def test_a_later_epoch_without_messages_loses_no_message_when_controllers_begin_anew() -> None:
    assert run_with_an_empty_later_epoch(seed=1).violations == ()


def test_a_replica_is_back_in_sync_although_the_end_of_its_older_link_comes_late() -> None:
    # In this schedule the last words of the older link come after the first ones of the newer.
    assert run_schedule(4423).violations == ()


def test_the_same_seed_gives_the_same_run_in_another_process_too() -> None:
    program = "from testkit.sim.runs.controller_schedules import run_schedule; print(run_schedule(5).trace)"
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    ran = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == run_schedule(5).trace
    assert run_schedule(6).trace != run_schedule(5).trace


@pytest.mark.parametrize("name", CANARIES)
def test_what_is_forged_is_reported(name: str) -> None:
    assert CANARIES[name]()
