"""The files that a release is built from: one commit, with the release's version in them.

Problem: a build of the checkout contains whatever lies there, and two builds differ. Shape: `git archive`
writes the files of HEAD to an empty folder, and `with_version` puts the version where the tree has its own.
Never here: a change of the checkout.
"""

import re
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Final

from controller_core.command_line.program import FailedError, MisuseError
from project_tools.release.commands import find_program, run_program

MEMBERS: Final = ("controller_core", "ha_sidecar", "operator", "spark")
"""The folders whose packages a release ships. `tests` and `tools` stay in the repository."""
_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}")
PACKAGES: Final = {
    "controller-core": "rocketmq-controller-core",
    "ha-sidecar": "rocketmq-ha-sidecar",
    "operator": "rocketmq-ha-operator",
    "slo-pipeline": "rocketmq-slo-pipeline",
}
"""Our packages by the name of the image that has them. The plugin has those of the operator."""


@dataclass(frozen=True, slots=True)
class SourceTree:
    """The files of a release.

    Attributes:
        root: the folder with the files.
        version: of the release, `major.minor.patch`.
        commit: full name of the commit.
        commit_time_s: its time, in seconds since 1970. All files of a release have this time.
    """

    root: Path
    version: str
    commit: str
    commit_time_s: int

    @property
    def chart(self) -> Path:
        """The chart's folder."""
        return self.root / "charts" / "rocketmq-ha"


def checked_version(text: str) -> str:
    """Return the text if it is a version that wheels, charts and images all accept.

    Raises:
        MisuseError: it is not `major.minor.patch`.
    """
    if not _VERSION.fullmatch(text):
        raise MisuseError(f"VERSION: {text!r} is not a version such as 0.2.0")
    return text


def export(checkout: Path, version: str, root: Path) -> SourceTree:
    """Write the files of the checkout's commit to an empty folder, with the version in them.

    Args:
        checkout: the repository. Changes that are not committed are not in a release.
        version: of the release.
        root: an empty folder.

    Raises:
        FailedError: the checkout is not a Git repository.
    """
    commit = _git(checkout, "rev-parse", "HEAD").decode().strip()
    commit_time_s = int(_git(checkout, "show", "-s", "--format=%ct", commit))
    with tarfile.open(fileobj=BytesIO(_git(checkout, "archive", "--format=tar", commit))) as archive:
        archive.extractall(root, filter="data")
    with_version(root, version)
    return SourceTree(root, version, commit, commit_time_s)


def with_version(root: Path, version: str) -> None:
    """Put the version into the packages and the chart, and make our packages require each other's version.

    Raises:
        FailedError: a file does not have a version where one is expected.
    """
    for member in MEMBERS:
        project = root / member / "pyproject.toml"
        _replace(project, r'^version = "[^"]+"$', f'version = "{version}"')
        text = project.read_text(encoding="utf-8")
        for package in PACKAGES.values():
            text = text.replace(f'  "{package}",', f'  "{package}=={version}",')
        project.write_text(text, encoding="utf-8")
    chart = root / "charts" / "rocketmq-ha" / "Chart.yaml"
    _replace(chart, r"^version: .+$", f"version: {version}")
    _replace(chart, r"^appVersion: .+$", f"appVersion: {version}")


def _replace(path: Path, pattern: str, line: str) -> None:
    text, count = re.subn(pattern, line, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if count != 1:
        raise FailedError(f"{path.name}: {count} lines have a version where one is expected")
    path.write_text(text, encoding="utf-8")


def _git(checkout: Path, *words: str) -> bytes:
    return run_program([find_program("git"), *words], checkout)
