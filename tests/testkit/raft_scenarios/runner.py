"""Replay a text, compare, and say where it differs.

Lines of a logger (DEBUG, INFO, WARN, ERROR) are left out of the comparison on both sides: the core writes no
log. A text that is empty without them counts as "ok".
"""

import difflib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from testkit.raft_scenarios import confchange_env, quorum_env
from testkit.raft_scenarios.confchange_env import ConfChangeEnv
from testkit.raft_scenarios.datadriven import Case, parse, render
from testkit.raft_scenarios.interaction_env import InteractionEnv, NotApplicableError
from testkit.raft_scenarios.quorum_env import QuorumEnv

_LOGGER_LEVELS = ("DEBUG ", "INFO ", "WARN ", "ERROR ")


class ScenarioEnvironment(Protocol):
    """An environment that runs the commands of a text."""

    def handle(self, case: Case) -> str:
        """Run one command and return its output."""
        ...


class ScenarioVerdict(Enum):
    """How a text fared."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class ScenarioReplay:
    """The verdict on a text, with the differences or the reason, and the regenerated text."""

    verdict: ScenarioVerdict
    report: str
    rewritten: str


def replay(path: Path) -> ScenarioReplay:
    """Replay one text in an environment of its own."""
    text = path.read_text(encoding="utf-8")
    cases, suffix = parse(text)
    environment = _environment(cases)
    done: list[tuple[Case, tuple[str, ...]]] = []
    differences: list[str] = []
    for case in cases:
        try:
            output = environment.handle(case)
        except NotApplicableError as error:
            return ScenarioReplay(ScenarioVerdict.NOT_APPLICABLE, f"not applicable: {error}", text)
        lines = tuple(output.splitlines())
        done.append((case, lines))
        differences += _difference(path, case, lines)
    verdict = ScenarioVerdict.FAILED if differences or not cases else ScenarioVerdict.PASSED
    report = "\n".join(differences) if cases else "no commands in this text"
    return ScenarioReplay(verdict, report, render(done, suffix))


def texts_under(directory: Path) -> list[Path]:
    """Return every text under `directory`, or the file itself; README files are not texts."""
    if directory.is_file():
        return [directory]
    found = sorted(path for path in directory.rglob("*") if path.is_file())
    return [
        path for path in found if not path.name.startswith((".", "README")) and path.suffix in ("", ".txt")
    ]


def _environment(cases: list[Case]) -> ScenarioEnvironment:
    """Return the environment whose vocabulary the text uses."""
    commands = {case.command for case in cases}
    if commands & quorum_env.COMMANDS:
        return QuorumEnv()
    if commands & confchange_env.COMMANDS:
        return ConfChangeEnv()
    return InteractionEnv()


def _difference(path: Path, case: Case, lines: tuple[str, ...]) -> list[str]:
    expected, actual = _comparable(case.expected), _comparable(lines)
    if expected == actual:
        return []
    head = f"{path.name}:{case.line_number}: {case.directive}"
    diff = difflib.unified_diff(expected, actual, "expected", "actual", lineterm="", n=2)
    return [head, *diff]


def _comparable(lines: tuple[str, ...]) -> list[str]:
    kept = [line.rstrip() for line in lines if not line.lstrip().startswith(_LOGGER_LEVELS)]
    return kept or ["ok"]
