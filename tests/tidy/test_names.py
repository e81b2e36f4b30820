"""A class name means one thing in the whole tree; a private name belongs to its module alone."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from testkit.tree.files import name_of, tracked

PYTHON_FILES = tracked("*.py")


def _defined_twice(files: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the public classes that several of the files define, with these files; takes names and texts."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, text in files:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{name}:{node.lineno}")
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def _texts(paths: Iterable[Path]) -> Iterable[tuple[str, str]]:
    return ((name_of(path), path.read_text()) for path in paths)


def test_a_class_name_is_defined_in_one_place() -> None:
    assert _defined_twice(_texts(PYTHON_FILES)) == {}


def test_a_second_class_with_a_name_is_found() -> None:
    files = [
        ("a.py", "class Plan: ...\nclass _Own: ...\n"),
        ("b.py", "x = 1\nclass Plan: ...\nclass _Own: ..."),
    ]
    assert _defined_twice(files) == {"Plan": ["a.py:1", "b.py:2"]}
