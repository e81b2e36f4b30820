"""The Python packages of a release: a wheel and a source archive each."""

from pathlib import Path

from project_tools.release.commands import run_uv
from project_tools.release.source_tree import MEMBERS, SourceTree


def build_wheels(tree: SourceTree, out: Path) -> list[Path]:
    """Build the packages that a release ships and return the files.

    `SOURCE_DATE_EPOCH` gives every file in them the commit's time.

    Raises:
        FailedError: uv is not installed, or refused.
    """
    variables = {"SOURCE_DATE_EPOCH": str(tree.commit_time_s)}
    for member in MEMBERS:
        # From the wheel's own folder: the source archive of a package leaves nothing out that its wheel has.
        run_uv(["build", "--no-create-gitignore", "--out-dir", str(out), member], tree.root, variables)
    return sorted(path for path in out.iterdir() if path.suffix in {".whl", ".gz"})
