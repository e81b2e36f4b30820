"""The commit of a version comes from the environment of an image, from git in a checkout, or is not known."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from controller_core.command_line import version

ROOT = Path(__file__).parents[3]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _no_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(version.COMMIT_VARIABLE, raising=False)


def _git(directory: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    return subprocess.run(
        ["git", "-C", directory, *who, *words], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    _git(tmp_path, "init", "--quiet")
    (tmp_path / "known.py").write_text("x = 1\n")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_an_image_names_its_commit(monkeypatch: pytest.MonkeyPatch, checkout: Path) -> None:
    monkeypatch.setenv(version.COMMIT_VARIABLE, COMMIT)
    assert version.commit(checkout / "known.py") == COMMIT


def test_a_checkout_asks_git_and_tells_of_changes(checkout: Path) -> None:
    head = _git(checkout, "rev-parse", "HEAD")
    _git(checkout, "tag", "v9")
    assert version.commit(checkout / "known.py") == head
    (checkout / "known.py").write_text("x = 2\n")
    assert version.commit(checkout / "known.py") == f"{head}-dirty"


def test_an_installed_file_in_somebody_elses_checkout_is_not_of_its_commit(checkout: Path) -> None:
    (checkout / "installed.py").touch()
    assert version.commit(checkout / "installed.py") == version.UNKNOWN


def test_outside_a_checkout_or_without_git_the_commit_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert version.commit(tmp_path / "none.py") == version.UNKNOWN
    monkeypatch.setenv("PATH", str(tmp_path))
    assert version.commit() == version.UNKNOWN


def test_a_distribution_that_is_not_installed_has_no_version() -> None:
    assert version.version_line("program", "no-such-distribution").startswith("program unknown (commit ")


def test_scripts_images_hands_the_commit_of_the_checkout_to_every_image(tmp_path: Path) -> None:
    tool = tmp_path / "docker"
    tool.write_text('#!/bin/sh\necho "$@" >>"$CALLS"\n')
    tool.chmod(0o755)
    calls = tmp_path / "calls"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "IMAGE_TOOL": "docker", "CALLS": str(calls)}
    subprocess.run([ROOT / "scripts" / "images", "build"], check=True, env=environment, capture_output=True)
    lines = calls.read_text().splitlines()
    assert len(lines) == 4
    assert all(f"--build-arg COMMIT={_git(ROOT, 'rev-parse', 'HEAD')}" in line for line in lines)


def test_every_image_names_its_commit() -> None:
    stages = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    images = [stage for stage in stages if "\nENTRYPOINT " in stage]
    assert len(images) == 4
    assert all(f"\nARG COMMIT=unknown\nENV {version.COMMIT_VARIABLE}=$COMMIT\n" in stage for stage in images)
