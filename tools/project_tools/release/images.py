"""The images of a release, as archives, with layers whose files have the commit's time.

`scripts/images` builds and saves them. Not here: a push, and architectures other than this machine's.
The workflow `release` builds each on a machine of its kind, because the JDK's packages need it.
"""

import os
from pathlib import Path

from project_tools.release.commands import run_program
from project_tools.release.source_tree import SourceTree


def build_images(tree: SourceTree, out: Path) -> list[Path]:
    """Write `<image>.tar` for each image and return the files.

    Environment: BASE, the Python image, best with its digest; IMAGE_TOOL.

    Raises:
        FailedError: no tool for images is installed, or the build failed.
    """
    variables = {
        "TAG": tree.version,
        "COMMIT": tree.commit,
        "SOURCE_DATE_EPOCH": str(tree.commit_time_s),
        **{name: os.environ[name] for name in ("BASE", "IMAGE_TOOL") if os.environ.get(name)},
    }
    script = str(tree.root / "scripts" / "images")
    run_program([script, "build"], tree.root, variables)
    run_program([script, "save", str(out)], tree.root, variables)
    return sorted(out.glob("*.tar"))
