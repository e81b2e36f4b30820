"""docs/reference/rocketmq_documents.md: each row has a verdict, a module that exists and tests that exist."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from testkit.tree.files import ROOT, module_file

PAGE = ROOT / "docs" / "reference" / "rocketmq_documents.md"
VERDICTS = ("same", "RocketMQ's", "different", "not")
CELLS = 5
ITEMS_MIN = 165


def rows() -> list[list[str]]:
    lines = PAGE.read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    return [row for row in cells if len(row) == CELLS and row[1] in VERDICTS]


ROWS = rows()


@cache
def functions(file: Path) -> frozenset[str]:
    return frozenset(re.findall(r"^\s*(?:async )?def (\w+)", file.read_text(), re.MULTILINE))


def problems(row: list[str]) -> list[str]:
    """Return what a row names that is not there."""
    _, verdict, does, module, tests = row
    found = [] if verdict in ("same", "RocketMQ's") or does != "-" else ["a reason"]
    name = module.strip("`")
    if module_file(name) is None:
        found.append(name)
    named = re.findall(r"`([^`]+)`", tests)
    if not named and verdict != "not":
        found.append("a test")
    for test in named:
        file, _, function = test.partition("::")
        if not (ROOT / file).is_file() or function not in functions(ROOT / file):
            found.append(test)
    return found


def test_every_row_names_a_module_and_tests_that_exist() -> None:
    missing = {row[0]: found for row in ROWS if (found := problems(row))}
    assert missing == {}


def test_the_page_is_whole_and_counts_its_verdicts() -> None:
    assert len(ROWS) >= ITEMS_MIN
    counted = Counter(row[1] for row in ROWS)
    for verdict in VERDICTS:
        assert f"| {verdict} | {counted[verdict]} |" in PAGE.read_text()


@pytest.mark.parametrize(
    "row",
    [
        ["x", "same", "-", "`controller_core.no_module`", "`tests/tidy/test_rocketmq_documents.py::rows`"],
        ["x", "same", "-", "`controller_core.raft`", "`tests/tidy/test_rocketmq_documents.py::no_test`"],
        ["x", "same", "-", "`controller_core.raft`", "-"],
        ["x", "not", "-", "`controller_core.raft`", "-"],
    ],
)
def test_a_row_that_names_what_is_not_there_is_found(row: list[str]) -> None:
    assert len(problems(row)) == 1
