"""A release: what its files say, and that the same commit gives the same bytes."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller_core.command_line.program import FailedError, MisuseError
from project_tools.chart_files import ROOT
from project_tools.release.__main__ import chosen_parts, main
from project_tools.release.archives import files_below, write_tar_gz
from project_tools.release.manifests import EVERYWHERE, definitions, rendered_chart
from project_tools.release.olm_bundle import cluster_service_version
from project_tools.release.source_tree import SourceTree, checked_version, export, with_version
from testkit.kube.kubectl import program

Json = dict[str, Any]
VERSION = "7.8.9"
needs_helm = pytest.mark.skipif(program("helm") is None, reason="helm is not installed")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> SourceTree:
    return export(ROOT, VERSION, tmp_path_factory.mktemp("tree"))


@pytest.mark.parametrize("text", ["", "1", "1.2", "v1.2.3", "1.2.3-rc1", "01.2.3", "1.2.3\n", "../1.2.3"])
def test_a_version_that_some_file_could_not_carry_is_refused_by_name(text: str) -> None:
    with pytest.raises(MisuseError, match="VERSION") as refused:
        checked_version(text)
    assert repr(text) in str(refused.value)


def test_a_part_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(MisuseError, match="'cart' is not one of wheels"):
        chosen_parts("wheels,cart")
    assert chosen_parts("chart, wheels") == ["wheels", "chart"]


def test_a_wrong_command_line_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["0.1", "--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "release: VERSION: '0.1' is not a version such as 0.2.0\n"
    assert not (tmp_path / "out").exists()


def test_packages_and_chart_of_a_release_have_its_version_and_require_each_other_s(tree: SourceTree) -> None:
    chart = yaml.safe_load((tree.chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    operator = (tree.root / "operator" / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{VERSION}"' in operator
    assert f'"rocketmq-controller-core=={VERSION}",' in operator


def test_a_file_without_a_version_is_named(tree: SourceTree, tmp_path: Path) -> None:
    (tmp_path / "controller_core").mkdir()
    (tmp_path / "controller_core" / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    with pytest.raises(FailedError, match=r"pyproject\.toml: 0 lines have a version"):
        with_version(tmp_path, VERSION)


def test_an_archive_depends_on_names_contents_and_rights_alone(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "first").write_text("1", encoding="utf-8")
    (tmp_path / "a" / "second").write_text("2", encoding="utf-8")
    (tmp_path / "b" / "second").write_text("2", encoding="utf-8")
    (tmp_path / "b" / "first").write_text("1", encoding="utf-8")
    archives = [tmp_path / "a.tgz", tmp_path / "other name.tgz"]
    for folder, archive in zip(("a", "b"), archives, strict=True):
        write_tar_gz(archive, files_below(tmp_path / folder), 1_700_000_000)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    (tmp_path / "b" / "first").chmod(0o755)
    write_tar_gz(archives[1], files_below(tmp_path / "b"), 1_700_000_000)
    assert archives[0].read_bytes() != archives[1].read_bytes()


@needs_helm
def test_the_bundle_gives_the_rights_of_the_chart_and_no_others(tree: SourceTree) -> None:
    objects = rendered_chart(tree, *EVERYWHERE)
    spec = cluster_service_version(tree, objects)["spec"]
    strategy = spec["install"]["spec"]
    expected = [rule for value in objects if value["kind"] == "ClusterRole" for rule in value["rules"]]
    assert [rule for entry in strategy["clusterPermissions"] for rule in entry["rules"]] == expected
    owned = {entry["name"] for entry in spec["customresourcedefinitions"]["owned"]}
    assert owned == {value["metadata"]["name"] for value in definitions(tree)}
    (deployment,) = strategy["deployments"]
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    assert {entry["serviceAccountName"] for entry in strategy["clusterPermissions"]} == {account}


@needs_helm
def test_a_role_of_another_account_does_not_get_into_the_bundle(tree: SourceTree) -> None:
    objects = rendered_chart(tree, *EVERYWHERE)
    binding = next(value for value in objects if value["kind"] == "ClusterRoleBinding")
    others = [*objects, binding | {"subjects": [{"kind": "ServiceAccount", "name": "stranger"}]}]
    with pytest.raises(FailedError, match="stranger is not the operator's account"):
        cluster_service_version(tree, others)


@needs_helm
def test_two_builds_of_a_commit_have_equal_digests(tmp_path: Path) -> None:
    parts = "manifests,bundle,bills,licences,chart,wheels"
    sums = []
    for name in ("first", "second"):
        assert main([VERSION, "--parts", parts, "--out", str(tmp_path / name)]) == 0
        sums.append((tmp_path / name / VERSION / "SHA256SUMS").read_text(encoding="utf-8"))
    assert sums[0] == sums[1]
    folder = tmp_path / "first" / VERSION
    assert not subprocess.run(
        ["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=False
    ).returncode
    _check_chart(folder / f"rocketmq-ha-{VERSION}.tgz")
    _check_manifests(folder / "install.yaml")
    bill = json.loads((folder / f"operator-{VERSION}.cdx.json").read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    assert {"kubernetes", "pydantic", "rocketmq-controller-core"} <= {
        entry["name"] for entry in bill["components"]
    }
    assert "https:" not in json.dumps(bill["components"])


def _check_chart(archive: Path) -> None:
    with tarfile.open(archive) as files:
        assert "rocketmq-ha/README.md" in files.getnames()
        content = files.extractfile("rocketmq-ha/Chart.yaml")
        assert content is not None
        annotations = yaml.safe_load(content.read())["annotations"]
    images = [entry["image"] for entry in yaml.safe_load(annotations["artifacthub.io/images"])]
    assert f"rocketmq-ha/operator:{VERSION}" in images
    printed = subprocess.run(
        [str(program("helm")), "show", "chart", str(archive)], capture_output=True, text=True, check=True
    )
    assert f"appVersion: {VERSION}" in printed.stdout


def _check_manifests(path: Path) -> None:
    objects: list[Json] = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    kinds = [value["kind"] for value in objects]
    assert kinds[0] == "Namespace"
    assert kinds.index("CustomResourceDefinition") < kinds.index("Deployment")
    (deployment,) = [value for value in objects if value["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(f"rocketmq-ha/operator:{VERSION}")
    assert deployment["metadata"]["namespace"] == objects[0]["metadata"]["name"]


def test_the_program_tells_its_parts() -> None:
    words = [sys.executable, "-m", "project_tools.release", "--help"]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "wheels,manifests" in printed.replace("\n", "").replace(" ", "")
