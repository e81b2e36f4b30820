"""The style that tools do not check: sizes, prints, markers, paths; rules read the tree as git has it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from testkit.tree.files import name_of, tracked

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
# Where printing is the job: what a person runs and reads.
PRINTS = re.compile(r"(cli|command|__main__|demo/.*|bench/.*|progress)\.py$")
PRODUCTS = ("controller_core/", "ha_sidecar/", "operator/", "spark/")
JSON_READS = re.compile(
    r"\bjson\.loads?\(|msgspec\.json\.(?:decode|Decoder)\(|await [\w.]+\.json\(|JSONDecoder\("
)
JSON_READERS = (
    "controller_core/controller_core/bounded_json.py",
    # Frames and bodies of Java, which may lack quotes; they use the depth of `bounded_json`.
    "controller_core/controller_core/remoting/header_json.py",
    "controller_core/controller_core/remoting/lenient_json.py",
    # What the same line wrote, a file of its own, and a load generator.
    "controller_core/controller_core/command_line/output.py",
    "controller_core/controller_core/log/snapshots.py",
    "controller_core/controller_core/server/cli/load_connection.py",
)
HTTP_METHODS = {"get", "post", "put", "patch", "delete", "request", "ws_connect"}
HTTP_SERVERS = re.compile(r"\bweb\.(?:AppRunner|ServerRunner|TCPSite|run_app)\(")


PYTHON_FILES = tracked("*.py")
TEXT_FILES = [
    path for path in tracked() if path.suffix not in {".png", ".parquet", ".lock"} and path.name != "LICENSE"
]


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_a_module_can_be_read_in_one_sitting() -> None:
    lines = {name_of(path): path.read_text().count("\n") for path in PYTHON_FILES}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES_MAX} == {}


def test_a_function_fits_a_screen() -> None:
    too_long = [
        f"{name_of(path)}:{node.lineno} {node.name} ({_lines(node)} lines)"
        for path in PYTHON_FILES
        for node in _functions(path)
        if _lines(node) > FUNCTION_LINES_MAX
    ]
    assert too_long == []


def test_libraries_do_not_print() -> None:
    prints = [
        f"{name_of(path)}:{node.lineno}"
        for path in PYTHON_FILES
        if not PRINTS.search(name_of(path))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert prints == []


def test_json_of_strangers_has_one_reader() -> None:
    readers = {
        f"{name_of(path)}: {call}"
        for path in PYTHON_FILES
        if name_of(path).startswith(PRODUCTS)
        for call in JSON_READS.findall(path.read_text())
    }
    assert {reader for reader in readers if not reader.startswith(JSON_READERS)} == set()


def test_http_of_strangers_has_one_server() -> None:
    servers = {
        name_of(path)
        for path in PYTHON_FILES
        if name_of(path).startswith(PRODUCTS) and HTTP_SERVERS.search(path.read_text())
    }
    assert servers == {"controller_core/controller_core/channel/http_port.py"}


def _requests(path: Path) -> Iterator[ast.Call]:
    """Yield the requests that a module makes with a session of aiohttp."""
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in HTTP_METHODS
        ):
            owner = getattr(node.func.value, "id", "") or getattr(node.func.value, "attr", "")
            if owner.endswith("session"):
                yield node


def test_no_request_follows_a_redirect_by_itself() -> None:
    requests = {
        f"{name_of(path)}:{call.lineno}": {keyword.arg for keyword in call.keywords}
        for path in PYTHON_FILES
        if name_of(path).startswith(PRODUCTS)
        for call in _requests(path)
    }
    assert len(requests) >= 10
    assert [name for name, given in requests.items() if "allow_redirects" not in given] == []


def test_a_module_says_what_it_is_for() -> None:
    silent = [
        name_of(path)
        for path in PYTHON_FILES
        if path.name not in {"__init__.py", "conftest.py"}
        and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_no_unfinished_marks() -> None:
    marker = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{name_of(path)}:{number}"
        for path in PYTHON_FILES
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marker.search(line)
    ]
    assert found == []


def test_no_path_of_one_machine() -> None:
    machine_path = re.compile(r"(?<![\w.])/(work|root|home)/\w")
    found = [
        f"{name_of(path)}:{number}"
        for path in TEXT_FILES
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if machine_path.search(line)
    ]
    assert found == []
