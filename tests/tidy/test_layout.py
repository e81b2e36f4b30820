"""The shape of the tree: packages where they belong, and nothing that shadows the standard library."""

import importlib.util
import operator
import sysconfig
from collections import Counter
from pathlib import Path

from testkit.tree.files import ROOT, name_of, tracked

MODULES_OF_A_FOLDER_MAX = 15


def test_operator_is_still_the_standard_library() -> None:
    assert operator.__file__ is not None
    assert operator.__file__.startswith(sysconfig.get_path("stdlib"))


def test_no_top_folder_is_a_package() -> None:
    strays = [path for path in ROOT.glob("*/__init__.py") if not path.parent.name.startswith(".")]
    assert strays == []


def test_no_test_folder_is_a_package() -> None:
    strays = [path for path in (ROOT / "tests").rglob("__init__.py") if "testkit" not in path.parts]
    assert strays == []


def test_packages_are_found_where_the_tree_has_them() -> None:
    places = {
        "controller_core": "controller_core",
        "ha_sidecar": "ha_sidecar",
        "rocketmq_operator": "operator",
        "slo_pipeline": "spark",
        "testkit": "tests",
    }
    for package, folder in places.items():
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        assert Path(spec.origin).is_relative_to(ROOT / folder)


def test_a_folder_has_few_enough_modules_to_read_their_names() -> None:
    modules = [
        path for path in tracked("*.py") if path.name not in {"__init__.py", "__main__.py", "conftest.py"}
    ]
    counts = Counter(name_of(path.parent) for path in modules)
    full = {folder: count for folder, count in counts.items() if count > MODULES_OF_A_FOLDER_MAX}
    assert full == {}
