"""The page of the HA protocol's cases agrees with their tests: every case has tests, every test exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "ha_conformance.md"
CASES = range(1, 19)
TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def names_in(*folders: str) -> set[str]:
    paths = [path for folder in folders for path in (ROOT / "tests" / folder).rglob("test_*.py")]
    return {name for path in paths for name in TEST.findall(path.read_text())}


def rows() -> dict[int, str]:
    found = re.findall(r"^\| (\d+) \|(.*)$", PAGE.read_text(), re.MULTILINE)
    return {int(number): row for number, row in found}


def test_every_case_has_a_row_and_tests_of_its_number() -> None:
    ours = names_in("conformance/ha")
    assert sorted(rows()) == list(CASES)
    for case in CASES:
        assert any(f"case_{case:02}_" in name for name in ours), case


def test_every_test_of_a_case_stands_in_its_row_and_no_other_does() -> None:
    for case, row in rows().items():
        shown = {name for name in re.findall(r"`(test_\w+)`", row) if "_case_" in name}
        assert shown == {name for name in names_in("conformance/ha") if f"case_{case:02}_" in name}, case


def test_every_test_that_the_page_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    assert named - names_in("conformance/ha", "unit/sidecar", "process") == set()
