"""What the documents promise: their links lead somewhere, and the commands they show exist."""

import ast
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from testkit.kube import release
from testkit.kube.release import shown_commands
from testkit.tree.files import FOLDERS, ROOT, make_targets, module_file, name_of, tracked

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
SCRIPTS = re.compile(
    r"^(?:\s*|\$ )(controller-core|ha-sidecar|slo-pipeline|rocketmq-operator|kubectl[ -]rmqha) ([a-z-]+)",
    re.MULTILINE,
)
MODULES = re.compile(rf"`((?:{'|'.join(FOLDERS)})(?:\.\w+)+)`")


def _leads_somewhere(name: str) -> bool:
    """Whether a dotted name is a module, or a name that stands in one."""
    module, _, last = name.rpartition(".")
    if module_file(name) is not None:
        return True
    file = module_file(module)
    if file is None:
        return "." in module and _leads_somewhere(module)
    text = (file / "__init__.py" if file.is_dir() else file).read_text()
    return re.search(rf"\b{last}\b", text) is not None


def _shown() -> list[tuple[str, str]]:
    """Return each (program, subcommand) that a document shows."""
    return sorted(
        {(match[1], match[2]) for document in DOCUMENTS for match in SCRIPTS.finditer(document.read_text())}
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_to_files_of_the_tree(document: Path) -> None:
    prose = re.sub(r"`[^`\n]*`", "", document.read_text())
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose)
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_make_commands_in_documents_are_targets(document: Path) -> None:
    commands = set(re.findall(r"(?:^|`)make ([a-z0-9-]+)", document.read_text(), re.MULTILINE))
    assert commands - make_targets() == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_modules_named_in_documents_exist(document: Path) -> None:
    named = set(MODULES.findall(document.read_text()))
    assert {name for name in named if not _leads_somewhere(name)} == set()


# One by one: together they take a slow machine longer than a test may.
@pytest.mark.parametrize(("program", "subcommand"), _shown())
def test_commands_in_documents_are_subcommands_of_the_programs(program: str, subcommand: str) -> None:
    called = subprocess.run(
        [ROOT / ".venv" / "bin" / program.replace(" ", "-"), subcommand, "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert called.returncode == 0, f"{program} {subcommand} --help: {called.stderr}"


def test_make_without_arguments_has_a_line_for_each_command() -> None:
    printed = subprocess.run(["make", "-C", ROOT, "help"], capture_output=True, text=True, check=True).stdout
    for target in [
        "setup",
        "demo",
        "test",
        "lint",
        "types",
        "e2e",
        "e2e-full",
        "bench",
        "sim",
        "raft-scenarios",
        "conformance",
        "docs",
        "clean",
    ]:
        assert re.search(rf"^{target}\s+\S", printed, re.MULTILINE), target


def _text_of(node: ast.expr, names: Mapping[str, str]) -> str:
    """Return the text that an expression stands for: a constant, a name of one, or an f-string of both."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return names[name]
        case ast.JoinedStr(values=values):
            return "".join(_text_of(one, names) for one in values)
        case ast.FormattedValue(value=value):
            return _text_of(value, names)
    raise AssertionError(f"{ast.unparse(node)} is not a constant text")


def _constants(module: ast.Module) -> dict[str, str]:
    """Return the texts that a module names."""
    pairs: list[tuple[ast.expr, ast.expr | None]] = []
    for one in module.body:
        match one:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                pairs += zip(names, values, strict=True)
            case ast.Assign(targets=[name], value=value) | ast.AnnAssign(target=name, value=value):
                pairs.append((name, value))
            case _:
                pass
    return {
        name.id: value.value
        for name, value in pairs
        if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _commands_that_tests_run() -> list[tuple[str, ...]]:
    """Return the arguments of each call of `shown_commands`: a title, and a document if it is not README."""
    found = set[tuple[str, ...]]()
    imported = _constants(ast.parse(Path(release.__file__).read_text()))
    for path in tracked("tests/kube/*.py", "tests/testkit/kube/*.py"):
        module = ast.parse(path.read_text())
        constants = imported | _constants(module)
        for call in ast.walk(module):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == shown_commands.__name__:
                found.add(tuple(_text_of(one, constants) for one in call.args))
    return sorted(found)


@pytest.mark.parametrize("where", _commands_that_tests_run(), ids=": ".join)
def test_commands_that_cluster_tests_run_stand_on_their_pages(where: tuple[str, ...]) -> None:
    assert shown_commands(*where)
