"""The catalogue of planted bugs fits the code, and the planter and the hunt work.

`make mutants` runs them all.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.mutants.catalogue import MUTANTS
from testkit.mutants.mutant import Mutant
from testkit.mutants.runner import Fate, package_root, plant, run

ROOT = Path(__file__).parents[2]
NAMED = {mutant.name: mutant for mutant in MUTANTS}


def test_there_are_enough_and_each_has_a_name_and_one_finder() -> None:
    assert len(NAMED) == len(MUTANTS) >= 15
    for mutant in MUTANTS:
        assert sum(bool(finder) for finder in (mutant.schedules, mutant.raft, mutant.test)) == 1, mutant.name
        assert not mutant.test or (ROOT / mutant.test.split("::")[0]).exists()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_can_be_planted_and_still_compiles(mutant: Mutant, tmp_path: Path) -> None:
    target = tmp_path / mutant.file
    target.parent.mkdir(parents=True)
    shutil.copy(package_root() / mutant.file, target)
    plant(mutant, tmp_path)
    compile(target.read_text(), mutant.file, "exec")


def test_a_planted_bug_is_found_and_an_unchanged_copy_is_not() -> None:
    mutant = NAMED["two nodes apply the same entry differently"]
    assert run(mutant, ROOT).fate is Fate.FOUND
    harmless = replace(mutant, new=mutant.old, schedules=1)
    assert run(harmless, ROOT).fate is Fate.SURVIVED


def test_a_copy_that_cannot_run_is_not_taken_for_a_finding() -> None:
    mutant = replace(NAMED["two nodes apply the same entry differently"], new="        raise SystemExit(3)\n")
    assert run(mutant, ROOT).fate is Fate.BROKEN
