"""The site of the documents builds strictly, and its pages load nothing from another host."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from testkit.tree.files import ROOT

LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=[\"']?((?:https?:)?//[^\"' >]+)"
    r"|<link\b(?![^>]*rel=[\"']?canonical)[^>]*?\bhref=[\"']?((?:https?:)?//[^\"' >]+)"
    r"|@import\s+[\"']((?:https?:)?//[^\"']+)"
    r"|url\([\"']?((?:https?:)?//[^)\"']+)"
)
"""An address from which a browser loads something by itself; a link that a reader follows is none."""


def _loaded(text: str) -> list[str]:
    return ["".join(match.groups("")) for match in LOADED.finditer(text)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [ROOT / ".venv" / "bin" / "mkdocs", "build", "--quiet", "--strict", "--site-dir", out],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return out


def test_the_site_has_a_page_for_each_document(site: Path) -> None:
    documents = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    pages = [
        path.parent / "index.html" if path.stem == "README" else path.with_suffix(".html")
        for path in documents
    ]
    assert [str(page) for page in pages if not (site / page).exists()] == []


def test_no_page_and_no_style_loads_from_another_host(site: Path) -> None:
    files = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert {path.name: loaded for path in files if (loaded := _loaded(path.read_text()))} == {}


def test_no_page_has_a_diagram_that_a_script_of_another_host_draws(site: Path) -> None:
    assert [path.name for path in site.rglob("*.html") if 'class="mermaid"' in path.read_text()] == []


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://unpkg.com/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.googleapis.com/css">',
        "@font-face{src:url(https://fonts.gstatic.com/a.woff2)}",
        '<img alt="x" src=http://example.com/a.png>',
    ],
)
def test_what_is_loaded_from_another_host_is_found(text: str) -> None:
    assert len(_loaded(text)) == 1


def test_every_document_is_in_the_navigation() -> None:
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    documents = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert listed == documents
