"""The files of the repository, for tests that read them."""

import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
FOLDERS: Final = {
    "controller_core": "controller_core",
    "ha_sidecar": "ha_sidecar",
    "rocketmq_operator": "operator",
    "slo_pipeline": "spark",
    "testkit": "tests",
}
"""Each package of the repository, and the folder that it lies in."""


def tracked(*patterns: str) -> list[Path]:
    """Return the files that git tracks or would add; with `patterns`, only those that match one of them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.splitlines() if (ROOT / name).is_file()]


def name_of(path: Path) -> str:
    """Return a file's path from the root of the repository."""
    return str(path.relative_to(ROOT))


def module_file(name: str) -> Path | None:
    """Return the file or folder of a module of ours (controller_core.raft); None: there is none."""
    path = ROOT / FOLDERS.get(name.partition(".")[0], "nowhere") / name.replace(".", "/")
    if path.is_dir():
        return path
    return file if (file := path.with_suffix(".py")).is_file() else None


def make_targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
