"""`publish.txt`: the commands that sign a release and push it, for a person or the workflow to run.

Never here: a key, a password, or a command that runs.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from project_tools.release.source_tree import PACKAGES, SourceTree

NAME: Final = "publish.txt"


def write_commands(tree: SourceTree, files: Iterable[Path], out: Path) -> Path:
    """Write the commands and return the file."""
    names = sorted(path.name for path in files)
    lines = [
        "# Run here, with REGISTRY set to the registry and its path, such as registry.example.com/rocketmq-ha"
    ]
    if any(name.endswith(".tar") for name in names):
        for image in PACKAGES:
            pushed = f"$REGISTRY/{image}:{tree.version}"
            bill = f"{image}-{tree.version}.cdx.json"
            lines += [
                f"skopeo copy docker-archive:{image}.tar docker://{pushed}",
                f"cosign sign --yes {pushed}",
                f"cosign attest --yes --type cyclonedx --predicate {bill} {pushed}",
            ]
    chart = f"rocketmq-ha-{tree.version}.tgz"
    if chart in names:
        lines.append(f"helm push {chart} oci://$REGISTRY/charts")
    if wheels := [name for name in names if name.endswith(".whl")]:
        lines.append(f"uv publish {' '.join(wheels)}")
    lines.append("cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS")
    target = out / NAME
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return target
