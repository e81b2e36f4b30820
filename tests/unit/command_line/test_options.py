"""The options of all programs, as a table, and what still differs between programs.

`tests/testdata/command_lines/options.txt` is the table: a change of an option shows there in review. `OPEN`
lists the options whose values differ between commands. A new disagreement fails here, and so does a settled
one that is still listed.
"""

from collections import defaultdict
from pathlib import Path

from testkit.products.command_lines import options

TABLE = Path(__file__).parents[2] / "testdata" / "command_lines" / "options.txt"
OPEN = {
    "--cluster": "a metavar in one of two programs",
    "--controllers": "semicolons, and a metavar in one of two programs",
    "--http": "an address to ask in controller-core, an address to listen at in the others",
    "--ignore": "a metavar in one of two programs",
    "--mapped-file-bytes": "a text where it is a setting, a number elsewhere",
    "--master": "Spark's master in slo-pipeline, the old master in kubectl rmqha",
    "--name-server": "semicolons in slo-pipeline, repeated in ha-sidecar",
    "--name-servers": "a metavar in one of two programs",
    "--to": "an offset in ha-sidecar, a member in kubectl rmqha",
    "--path": "a way of migrating in kubectl rmqha, a directory in slo-pipeline",
}


def _kinds() -> dict[str, set[tuple[str, str]]]:
    """Return the options that have several kinds of values, each as its type and its metavar."""
    kinds: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for option in options():
        if option.name.startswith("--"):
            kinds[option.name].add(
                (option.type_name, str(option.action.metavar or option.action.choices or ""))
            )
    return {name: found for name, found in kinds.items() if len(found) > 1}


def test_the_table_is_the_one_of_the_parsers() -> None:
    assert [option.row for option in options()] == TABLE.read_text().splitlines()


def test_no_command_has_an_option_twice() -> None:
    rows = [option.row for option in options()]
    assert sorted(set(rows)) == sorted(rows)


def test_options_are_lower_case_with_dashes() -> None:
    names = {option.name for option in options() if option.action.option_strings}
    assert {name for name in names if not name.strip("-").replace("-", "a").islower()} == set()


def test_an_option_has_the_same_value_in_all_programs_but_for_the_listed_ones() -> None:
    assert set(_kinds()) == set(OPEN)


def test_every_option_and_argument_has_a_help_text() -> None:
    assert [option.row for option in options() if not option.action.help] == []
