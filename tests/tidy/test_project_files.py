"""The files of the project's host: they parse, call only commands that exist, and leave no test out."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.tree.files import ROOT, make_targets, name_of

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yaml"))
NOT_SHARDED = {"bench", "kube", "testdata", "testkit", "tidy"}
"""Folders of `tests` that other commands run, and folders without tests."""


def _yaml(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text())
    assert isinstance(loaded, dict)
    return loaded


def _runs(workflow: Path) -> list[str]:
    steps = [step for job in _yaml(workflow)["jobs"].values() for step in job["steps"]]
    return [line.strip() for step in steps for line in step.get("run", "").splitlines()]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name_of)
def test_a_workflow_runs_only_make_targets_that_exist(workflow: Path) -> None:
    targets = make_targets()
    called = [re.fullmatch(r"make ([a-z0-9-]+)(?: [A-Z_]+=.*)?", line) for line in _runs(workflow)]
    assert called
    assert [match and match[1] in targets for match in called] == [True] * len(called)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=name_of)
def test_a_workflow_may_only_read_and_ends_in_time(workflow: Path) -> None:
    content = _yaml(workflow)
    assert content["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in content["jobs"].values())


def test_the_shards_hold_every_test_once() -> None:
    jobs = _yaml(GITHUB / "workflows" / "test.yaml")["jobs"].values()
    patterns = [pattern for job in jobs for pattern in job["strategy"]["matrix"]["tests"]]
    found = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    folders = [path for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"]
    wanted = [path for path in folders if path.name not in NOT_SHARDED and path.name != "unit"]
    wanted += [path for path in (ROOT / "tests" / "unit").iterdir() if path.name != "__pycache__"]
    assert found == sorted(wanted)


@pytest.mark.parametrize("template", sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yaml")), ids=name_of)
def test_an_issue_template_has_a_name_and_questions(template: Path) -> None:
    content = _yaml(template)
    assert content["name"]
    assert content["description"]
    assert [part for part in content["body"] if part["type"] == "textarea"]


def test_hooks_call_programs_that_setup_installs() -> None:
    hooks = _yaml(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    programs = [hook["entry"].split()[0] for hook in hooks]
    assert [program for program in programs if not (ROOT / program).exists()] == []


def test_renovate_finds_the_pinned_uv_where_it_says() -> None:
    manager = json.loads((ROOT / "renovate.json").read_text())["customManagers"][0]
    patterns = [re.compile(text.replace("(?<", "(?P<")) for text in manager["matchStrings"]]
    pinned = []
    for file in ("scripts/setup", "Dockerfile"):
        matches = [pattern.search((ROOT / file).read_text()) for pattern in patterns]
        pinned.append({match["currentValue"] for match in matches if match})
    assert pinned[0] == pinned[1]
    assert len(pinned[0]) == 1


def test_a_release_scans_the_lock_file_and_every_image_before_it_pushes_them() -> None:
    steps = _yaml(GITHUB / "workflows" / "release.yaml")["jobs"]["images"]["steps"]
    before_push = steps[: [step.get("run") for step in steps].index("make images-push")]
    scans = [step["with"] for step in before_push if "trivy" in step.get("uses", "")]
    names = re.findall(r"\]=([a-z-]+)", (ROOT / "scripts" / "images").read_text())
    assert len(names) == 4
    scanned = {scan.get("image-ref", scan.get("scan-ref")) for scan in scans}
    images = {f"${{{{ env.REGISTRY }}}}rocketmq-ha/{name}:${{{{ env.TAG }}}}" for name in names}
    assert scanned == {"uv.lock"} | images
    assert {scan["exit-code"] for scan in scans} == {"1"}


def test_images_are_built_for_the_architecture_of_the_machine_alone() -> None:
    command = [ROOT / "scripts" / "images", "build"]
    environment = {**os.environ, "ARCH": "s390x", "IMAGE_TOOL": "false"}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "ARCH is s390x (expected " in refused.stderr
    assert "TAG-s390x" in refused.stderr


def test_a_release_takes_its_base_image_by_digest_only() -> None:
    assert _yaml(GITHUB / "workflows" / "release.yaml")["jobs"]["images"]["env"]["REQUIRE_DIGEST"]
    command = [ROOT / "scripts" / "images", "build"]
    environment = {**os.environ, "BASE": "python:3.11", "REQUIRE_DIGEST": "1", "IMAGE_TOOL": "false"}
    refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "expected an image by digest" in refused.stderr
