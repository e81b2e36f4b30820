"""Give links from a page to files outside docs/ a place in the built site, as a hook of mkdocs.

Pages link to examples, the chart and documents of the root. The site has no such pages, so the hook adds a
copy of the file as text and points the link there. A link to a folder becomes plain text. A link to a missing
file stays, and `mkdocs build --strict` fails on it.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
FILES = "files"
"""Folder of the site with the copies."""
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)(#[^)]*)?\)")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with its links to files outside docs/ pointed at their copies."""
    folder = posixpath.dirname(page.file.src_uri)

    def placed(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", folder, match[2]))
        source = ROOT / target
        if target.startswith(("docs/", "..")) or not source.exists():
            return match[0]
        if source.is_dir():
            return match[1]
        copy = f"{FILES}/{target}.txt"
        if files.get_file_from_path(copy) is None:
            files.append(File.generated(config, copy, abs_src_path=str(source)))
        return f"[{match[1]}]({posixpath.relpath(copy, folder or '.')})"

    return _LINK.sub(placed, markdown)
