"""What the documents promise: their links lead somewhere, and the commands they show exist."""

import re
import subprocess
from pathlib import Path

import pytest

from testkit.tree.files import ROOT, make_targets, name_of

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
SCRIPTS = re.compile(
    r"^(?:\s*|\$ )(controller-core|ha-sidecar|slo-pipeline|rocketmq-operator|kubectl[ -]rmqha) ([a-z-]+)",
    re.MULTILINE,
)


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
