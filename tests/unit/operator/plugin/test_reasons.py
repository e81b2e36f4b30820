"""Each reason that a status may give is in the reference, and the plugin's advices name only these."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import rocketmq_operator
from controller_core.groups.elections.election import FailureReason
from rocketmq_operator.plugin.advice import ADVICE

SOURCES = Path(rocketmq_operator.__file__).parent
REFERENCE = Path(__file__).parents[4] / "docs" / "reference" / "conditions.md"
API_SERVERS_OWN = {"FieldValueForbidden"}


_MADE_WITH_REASON = {"InvalidSpecError", "PodTrouble", "Wait", "_trouble"}


def _reasons() -> Iterator[str]:
    """Yield every constant that a Wait, a finding or a rule has as its reason."""
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            named = node.args[:1] if node.func.id in _MADE_WITH_REASON else []
            keyed = [
                one.value
                for one in node.keywords
                if (node.func.id, one.arg) in {("found", "reason"), ("Rule", "name")}
            ]
            for value in (*named, *keyed):
                yield from (
                    one.value
                    for one in ast.walk(value)
                    if isinstance(one, ast.Constant) and isinstance(one.value, str)
                )


def _documented() -> set[str]:
    first_cells = re.findall(r"^\| ([^|]+) \|", REFERENCE.read_text(), re.MULTILINE)
    return {word for cell in first_cells for word in cell.split(", ")}


def test_every_reason_of_a_status_is_documented() -> None:
    reasons = {reason for reason in _reasons() if reason.isalnum() and reason[0].isupper()} - API_SERVERS_OWN
    assert len(reasons) > 30, "the search finds nothing any more"
    assert reasons - _documented() == set()


def test_every_reason_of_the_controllers_is_documented() -> None:
    text = REFERENCE.read_text()
    assert [reason for reason in FailureReason if f"`{reason}`" not in text] == []


def test_advice_is_given_for_what_a_person_can_do_something_about() -> None:
    _, _, to_do = REFERENCE.read_text().partition("## A member in trouble")
    assert [reason for reason in ADVICE if reason not in to_do] == []
