"""Plain English: phrases that readers must decode are counted and are few.

Docs, docstrings, comments and messages count.

CONTRIBUTING says how to write. What is counted here is only what a program can find; a sentence may be hard
to read without any of these phrases.
"""

import io
import re
import tokenize
from pathlib import Path
from typing import Final

from testkit.tree.files import ROOT, name_of, tracked

SUFFIXES: Final = {".py", ".md", ".yaml", ".tpl", ".txt"}
PHRASES_PER_1000_WORDS: Final = 3.0
# README, docs, the chart and its CRDs are read by people who do not know the code.
PHRASES_PER_1000_WORDS_IN_DOCS: Final = 1.5
DOCS: Final = re.compile(r"(README\.md|SECURITY\.md|docs/.*|charts/.*)$")
# A short file may have one: the rate of so few words says nothing.
PHRASES_ALWAYS_ALLOWED: Final = 1
STRING_CHARACTERS_MIN: Final = 25
# Files with more phrases, and how many: they may lose some and get no more.
BUDGETS: Final = ROOT / "tests" / "tidy" / "word_budgets.txt"
PHRASES: Final = {
    "a clause instead of a noun (name the thing or the person)": (
        r"\b(?:who|what|whoever|whom|whose)\s+(?:dials?|asks?|is|was|has|had|comes?|came|goes|gets?|needs?|waits?|sends?"
        r"|stands?|holds?|knows?|stays?|runs?|belongs?|cannot|can|may|must|does|did|takes?|took|leaves?|wants?|serves?"
        r"|reads?|writes?)\b(?=[^?]*[.;,:])"
    ),
    "an order or a future without its verb (say must or will)": (
        r"\b(?:is|are|was|were) to (?:be|go|end|meet|have|stop|die|come|leave|take|do|join|wait|say)\b"
    ),
    "a negated noun (say: is not, does not have)": (
        r"\b(?:is|are|was|were|has|have|takes?|gets?|there) (?:no|nobody|nothing|none)\b"
    ),
    "a person who does not exist (say: no client, no process)": r"\bnobody(?:'s|s)?\b|\bno one\b",
    "before without what (say: previous)": r"\bof before\b|\bthose before\b|\bthe one before\b",
    "a rate that reads as the number two (say: per second)": (
        r"\b(?:calls?|sends?|requests?|times|samples?|messages|bytes|MB|inputs|changes|heartbeats?|entries|elections"
        r"|commands) a second\b"
    ),
    "an old word": (
        r"\b(?:wherefore|whereby|thereof|therein|hitherto|meanwhile|anew|in the midst|in turns|for the sake"
        r"|beforehand|so does it|be it)\b"
    ),
    "a passive without an actor (say who does it)": (
        r"\b(?:is|are|was|were) (?:met|told|kept|asked|heard|led|taken for|let|lent|put back)\b"
    ),
    "CPU under another name": r"\bprocessor time\b",
}
COMPILED: Final = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in PHRASES.items()}


def _text_files() -> list[Path]:
    return [
        path
        for path in tracked()
        if path.suffix in SUFFIXES and "testdata" not in path.parts and path not in {Path(__file__), BUDGETS}
    ]


def _prose(path: Path) -> str:
    """Return what people read of a file: all of it, or a module's comments and longer strings."""
    text = path.read_text(errors="replace")
    if path.suffix != ".py":
        return text
    return "\n".join(
        token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
        or (token.type == tokenize.STRING and len(token.string) >= STRING_CHARACTERS_MIN)
    )


def _found(text: str) -> list[str]:
    return [
        f"{' '.join(hit[0].split())!r}: {name}"
        for name, phrase in COMPILED.items()
        for hit in phrase.finditer(text)
    ]


def _allowed(path: Path, text: str) -> float:
    rate = PHRASES_PER_1000_WORDS_IN_DOCS if DOCS.match(name_of(path)) else PHRASES_PER_1000_WORDS
    return max(PHRASES_ALWAYS_ALLOWED, rate * len(text.split()) / 1000)


def test_phrases_that_readers_must_decode_are_found() -> None:
    assert len(_found("Who dials a master that is to be killed is asked nothing of, so nobody waits.")) == 4
    assert _found("Clients that connect to a master about to be killed wait in the accept queue.") == []


def _recorded() -> dict[str, int]:
    """Return the files that had more phrases than allowed when they were counted, and how many."""
    lines = BUDGETS.read_text().splitlines()
    return {name: int(count) for count, name in (line.split(maxsplit=1) for line in lines)}


def test_a_file_has_few_phrases_that_readers_must_decode() -> None:
    recorded, too_many, fewer = _recorded(), {}, {}
    for path in _text_files():
        text = _prose(path)
        found, name = _found(text), name_of(path)
        if len(found) > max(_allowed(path, text), recorded.get(name, 0)):
            too_many[name] = found
        elif len(found) < recorded.get(name, 0):
            fewer[name] = len(found)
    assert too_many == {}
    assert fewer == {}, f"write the smaller numbers into {name_of(BUDGETS)}"


def test_a_recorded_file_exists() -> None:
    assert [name for name in _recorded() if not (ROOT / name).is_file()] == []
