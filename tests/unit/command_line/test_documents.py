"""The programs understand every command line of a document, options and values included.

A sentence may leave the values out: only its options must exist.
"""

import re
import shlex
from pathlib import Path

import pytest

from testkit.products.command_lines import MAINS, options, parser_of
from testkit.tree.files import ROOT, name_of

DOCUMENTS = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
_NAMES = "|".join(MAINS)
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```|^((?: {4}.*\n)+)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(rf"^ *(?:\$ )?({_NAMES}) ((?:.*\\\n)*.*)$", re.MULTILINE)
_SUBSTITUTED = re.compile(rf"<\(({_NAMES}) ([^)]*)\)")
_SENTENCE = re.compile(rf"`({_NAMES}) ([a-z][^`\n]*)`")
_OPTION = re.compile(r"(?:^| )(--[a-z-]+)")


def _lines(document: Path) -> set[tuple[str, str]]:
    """Return program and words of each command line in a code block."""
    blocks = "\n".join(part for pair in _BLOCK.findall(document.read_text()) for part in pair)
    found = {*_LINE.findall(blocks), *_SUBSTITUTED.findall(blocks)}
    return {(name, words.replace("\\\n", " ").partition(" > ")[0]) for name, words in found}


@pytest.mark.parametrize("document", [one for one in DOCUMENTS if _lines(one)], ids=name_of)
def test_the_programs_understand_the_command_lines_of_a_document(document: Path) -> None:
    for program, words in sorted(_lines(document)):
        assert parser_of(program).parse_args(shlex.split(words)), f"{program} {words}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_the_options_that_a_sentence_gives_a_command_exist(document: Path) -> None:
    for program, words in _SENTENCE.findall(document.read_text()):
        command = words.partition(" ")[0]
        known = {one.name for one in options() if (one.program, one.command) == (program, command)}
        assert set(_OPTION.findall(words)) <= known, f"{program} {words}"


def test_command_lines_are_found() -> None:
    found = {line for document in DOCUMENTS for line in _lines(document)}
    assert ("controller-core", "members list") in found
    assert ("ha-sidecar", "completion bash") in found
    assert len(found) > 25
