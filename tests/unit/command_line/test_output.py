"""The same data as a table, JSON, YAML and CSV."""

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_core.command_line.output import FORMS, RowPrinter, show, text_of
from controller_core.command_line.program import MisuseError
from testkit.products.command_lines import options, parser_of


@dataclass
class _Member:
    """One row."""

    name: str
    lag_bytes: int | None
    ready: bool
    places: list[str]


MEMBERS = [_Member("orders-0", None, True, ["a", "b"]), _Member("orders-1", 1_024, False, [])]
PLAIN = [
    {"name": "orders-0", "lag_bytes": None, "ready": True, "places": ["a", "b"]},
    {"name": "orders-1", "lag_bytes": 1_024, "ready": False, "places": []},
]


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_list_of_dataclasses_is_a_table_with_a_head() -> None:
    assert text_of("table", MEMBERS) == (
        "NAME      LAG BYTES  READY  PLACES\n"
        'orders-0  -          true   ["a", "b"]\n'
        "orders-1  1024       false  []\n"
    )


def test_json_is_one_line_and_yaml_says_the_same() -> None:
    text = text_of("json", MEMBERS)
    assert (json.loads(text), text.count("\n")) == (PLAIN, 1)
    assert yaml.safe_load(text_of("yaml", MEMBERS)) == PLAIN


def test_csv_has_a_head_and_a_cell_for_each_value() -> None:
    text = text_of("csv", MEMBERS)
    assert text.splitlines()[0] == "name,lag_bytes,ready,places"
    assert _rows(text)[0] == {"name": "orders-0", "lag_bytes": "", "ready": "true", "places": '["a", "b"]'}


def test_a_record_is_a_line_for_each_field_and_one_row_of_csv() -> None:
    assert text_of("table", {"from_offset": 10, "kept": None}) == "from_offset  10\nkept         -\n"
    assert text_of("csv", {"from_offset": 10, "kept": None}) == "from_offset,kept\n10,\n"


def test_nested_data_have_rows_of_their_own_for_csv_and_a_command_may_draw_its_own_table() -> None:
    data = {"members": PLAIN}
    assert text_of("table", data, rows=PLAIN, lines=["two members"]) == "two members\n"
    assert text_of("csv", data, rows=PLAIN) == text_of("csv", MEMBERS)
    assert json.loads(text_of("json", data, rows=PLAIN, lines=["x"])) == data


@pytest.mark.parametrize("form", FORMS)
def test_no_rows_are_an_empty_list(form: str) -> None:
    assert text_of(form, []) == {"json": "[]\n", "yaml": "[]\n"}.get(form, "")


@pytest.mark.parametrize("form", FORMS)
def test_a_name_with_control_characters_does_not_make_lines_of_its_own(form: str) -> None:
    text = text_of(form, [{"name": "b1\nforged\x1b[2J"}], lines=["b1\nforged\x1b[2J"])
    assert "\x1b" not in text
    assert "\nforged" not in text


def test_a_whole_number_has_no_fraction_in_a_cell_and_an_infinite_one_is_a_word() -> None:
    assert text_of("csv", {"a": 7.0, "b": 0.1, "c": float("inf")}) == "a,b,c\n7,0.1,inf\n"
    assert json.loads(text_of("json", {"c": float("inf")})) == {"c": "inf"}


def test_values_that_json_does_not_know_are_texts_in_every_form() -> None:
    for form in FORMS:
        assert "/data" in text_of(form, {"directory": Path("/data")})


def _printed(form: str, capsys: pytest.CaptureFixture[str], *rows: Any) -> str:
    printer = RowPrinter(form)
    for row in rows:
        printer.show(row, "a line")
    return capsys.readouterr().out


def test_rows_that_come_one_by_one_make_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert yaml.safe_load(_printed("yaml", capsys, *MEMBERS)) == PLAIN
    assert [json.loads(line) for line in _printed("json", capsys, *MEMBERS).splitlines()] == PLAIN
    assert _printed("csv", capsys, *MEMBERS) == text_of("csv", MEMBERS)
    assert _printed("table", capsys, *MEMBERS) == "a line\na line\n"


def test_a_row_with_other_fields_keeps_the_columns_of_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert _printed("csv", capsys, {"a": 1, "b": 2}, {"b": 3, "c": 4}) == "a,b\n1,2\n,3\n"


def test_show_prints_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    show("csv", MEMBERS)
    assert capsys.readouterr().out == text_of("csv", MEMBERS)


def test_every_output_option_has_the_same_forms_and_default() -> None:
    found = [option for option in options() if option.name == "--output"]
    assert len(found) == 30
    assert {(option.action.choices, option.action.default) for option in found} == {(FORMS, "table")}


def test_another_form_is_refused() -> None:
    with pytest.raises(MisuseError, match="argument -o/--output: invalid choice: 'text'"):
        parser_of("controller-core").parse_args(["groups", "-o", "text"])
