"""The options of all programs, as a table: an option has one meaning and one kind of value in all of them.

`tests/testdata/command_lines/options.txt` is the table: a change of an option shows there in review.
`python -m testkit.products.command_lines` prints it.
"""

from collections import defaultdict
from pathlib import Path

from controller_core.command_line.values import HOSTS, NAMES
from testkit.products.command_lines import options

TABLE = Path(__file__).parents[2] / "testdata" / "command_lines" / "options.txt"


def _values() -> dict[str, set[str]]:
    """Return what `--help` shows of each option's value, over all commands."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for option in options():
        if option.name.startswith("--"):
            found[option.name].add(option.value)
    return found


def test_the_table_is_the_one_of_the_parsers() -> None:
    assert [option.row for option in options()] == TABLE.read_text().splitlines()


def test_no_command_has_an_option_twice() -> None:
    rows = [option.row for option in options()]
    assert sorted(set(rows)) == sorted(rows)


def test_options_are_lower_case_with_dashes() -> None:
    names = {option.name for option in options() if option.action.option_strings}
    assert {name for name in names if not name.strip("-").replace("-", "a").islower()} == set()


def test_an_option_has_the_same_value_in_all_programs() -> None:
    assert {name: sorted(values) for name, values in _values().items() if len(values) > 1} == {}


def test_an_option_has_the_same_short_form_in_all_programs() -> None:
    found = defaultdict(set)
    for option in options():
        for short in option.action.option_strings:
            if not short.startswith("--"):
                found[short].add(option.name)
    assert {short: names for short, names in found.items() if len(names) > 1} == {}


def test_help_shows_what_each_value_looks_like() -> None:
    unnamed = {option.row for option in options() if option.name.startswith("--") and not option.value}
    assert {row for row in unnamed if " flag" not in row} == set()


def test_durations_and_lists_are_read_by_the_shared_functions() -> None:
    kinds = {
        "DURATION": {"duration", "positive_duration"},
        HOSTS: {"hosts"},
        NAMES: {"names"},
    }
    settings = {"ha-sidecar"}  # Its settings stay texts, which a file may have too.
    for option in options():
        if option.value in kinds and not (option.program in settings and option.type_name == "str"):
            assert option.type_name in kinds[option.value], option.row


def test_every_option_and_argument_has_a_help_text() -> None:
    assert [option.row for option in options() if not option.action.help] == []
