"""The chart of a release as `helm package` makes it, but with bytes that depend on the commit alone.

Why not `helm package`: it writes the time of the build into the archive.
"""

import re
from pathlib import Path
from typing import Final

import yaml

from project_tools.release.archives import files_below, write_tar_gz
from project_tools.release.manifests import definitions, described_kind
from project_tools.release.source_tree import PACKAGES, SourceTree

_LINK: Final = re.compile(r"\]\((?!https?:)[^)]*\)")


def build_chart(tree: SourceTree, out: Path) -> Path:
    """Write `rocketmq-ha-<version>.tgz` and return it. Its README is the page about the chart's values."""
    describe(tree)
    target = out / f"rocketmq-ha-{tree.version}.tgz"
    write_tar_gz(target, files_below(tree.chart, "rocketmq-ha/"), tree.commit_time_s)
    return target


def describe(tree: SourceTree) -> None:
    """Add README, licence and Artifact Hub's annotations to the chart in the tree."""
    page = (tree.root / "docs" / "reference" / "chart.md").read_text(encoding="utf-8")
    (tree.chart / "README.md").write_text(_without_links(page), encoding="utf-8")
    (tree.chart / "LICENSE").write_bytes((tree.root / "LICENSE").read_bytes())
    path = tree.chart / "Chart.yaml"
    metadata = yaml.safe_load(path.read_text(encoding="utf-8"))
    metadata["annotations"] = annotations(tree)
    path.write_text(yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True), encoding="utf-8")


def annotations(tree: SourceTree) -> dict[str, str]:
    """Return the annotations that Artifact Hub reads (its page "Helm annotations")."""
    kinds = [
        {"name": definition["spec"]["names"]["plural"], **described_kind(definition)}
        for definition in definitions(tree)
    ]
    images = [{"name": name, "image": f"rocketmq-ha/{name}:{tree.version}"} for name in PACKAGES]
    return {
        "artifacthub.io/category": "streaming-messaging",
        "artifacthub.io/crds": yaml.safe_dump(kinds, sort_keys=False),
        "artifacthub.io/images": yaml.safe_dump(images, sort_keys=False),
        "artifacthub.io/license": "Apache-2.0",
        "artifacthub.io/operator": "true",
        "artifacthub.io/operatorCapabilities": "Auto Pilot",
    }


def _without_links(page: str) -> str:
    """Leave the texts of links into the repository, whose files the archive does not have."""
    return _LINK.sub("]", page).replace("[values.yaml]", "values.yaml")
