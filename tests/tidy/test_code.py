"""The style that tools do not check: sizes, prints, markers, paths; each rule reads the tree as git has it."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
# Where printing is the job: what a person runs and reads.
PRINTS = re.compile(r"(cli|command|__main__|demo/.*|bench/.*|progress)\.py$")


def _tracked(*patterns: str) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).is_file()]


PYTHON_FILES = _tracked("*.py")
TEXT_FILES = [path for path in _tracked() if path.suffix not in {".png", ".parquet", ".lock"} and path.name != "LICENSE"]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PYTHON_FILES, ids=_name)
def test_a_module_can_be_read_in_one_sitting(path: Path) -> None:
    lines = path.read_text().count("\n")
    assert lines <= MODULE_LINES_MAX, f"{_name(path)} has {lines} lines"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=_name)
def test_a_function_fits_a_screen(path: Path) -> None:
    too_long = [
        f"{node.name} ({node.end_lineno - node.lineno + 1} lines)"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert too_long == []


@pytest.mark.parametrize("path", PYTHON_FILES, ids=_name)
def test_libraries_do_not_print(path: Path) -> None:
    prints = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not prints or PRINTS.search(_name(path)), f"print at lines {prints}"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=_name)
def test_a_public_module_says_what_it_is_for(path: Path) -> None:
    if path.name == "__init__.py" or path.name == "conftest.py":
        return
    assert ast.get_docstring(ast.parse(path.read_text())), "no module docstring"


def test_no_unfinished_marks() -> None:
    marker = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{_name(path)}:{number}"
        for path in PYTHON_FILES
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marker.search(line)
    ]
    assert found == []


def test_no_path_of_one_machine() -> None:
    machine_path = re.compile(r"(?<![\w.])/(work|root|home)/\w")
    found = [
        f"{_name(path)}:{number}"
        for path in TEXT_FILES
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if machine_path.search(line)
    ]
    assert found == []
