"""Build a release: `make release VERSION=0.2.0`, or `python -m project_tools.release --help`.

    out/release/0.2.0/
      *.whl, *.tar.gz               the packages
      <image>.tar                   the images of this machine's architecture
      rocketmq-ha-0.2.0.tgz         the chart
      install.yaml                  manifests for kubectl
      olm-bundle-0.2.0.tar.gz       the bundle for the Operator Lifecycle Manager
      kubectl-rmqha-0.2.0-*.tar.gz  the plugin for each platform, and Krew's manifest rmqha.yaml
      *.cdx.json                    bills of materials
      licences-0.2.0.txt            licences of the libraries
      SHA256SUMS                    digests of all of these

The same commit and version give the same bytes. Never here: an upload. `publish.txt` has the commands that
sign and push.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from controller_core.command_line.program import MisuseError, program, run
from project_tools.release.bills import build_bills
from project_tools.release.chart_package import build_chart
from project_tools.release.checksums import write_checksums
from project_tools.release.commands import report_progress
from project_tools.release.images import build_images
from project_tools.release.licences import build_licences
from project_tools.release.manifests import build_manifests
from project_tools.release.olm_bundle import build_bundle
from project_tools.release.plugin_archives import build_plugins
from project_tools.release.publishing import write_commands
from project_tools.release.source_tree import SourceTree, checked_version, export
from project_tools.release.wheels import build_wheels

_URL: Final = "https://rocketmq-ha.dev/releases"
Builder = Callable[[SourceTree, Path, Path, str], list[Path]]
"""Takes the tree, an empty folder for itself, the folder of the release, and its address."""
PARTS: Final[dict[str, Builder]] = {
    "wheels": lambda tree, work, out, url: build_wheels(tree, out),
    "manifests": lambda tree, work, out, url: [build_manifests(tree, out)],
    "bundle": lambda tree, work, out, url: [build_bundle(tree, work, out)],
    "plugin": build_plugins,
    "bills": lambda tree, work, out, url: build_bills(tree, out),
    "licences": lambda tree, work, out, url: [build_licences(tree, out)],
    "chart": lambda tree, work, out, url: [build_chart(tree, out)],
    "images": lambda tree, work, out, url: build_images(tree, out),
}
"""The parts in the order of their builds. The chart comes after its users, because it gets a README."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Build a release; return the exit status."""
    parser = program("release", "Build the files of a release.", "rocketmq-project-tools")
    parser.add_argument("release", metavar="VERSION", help="major.minor.patch")
    parser.add_argument("--out", type=Path, default=Path("out/release"), help="folder (default out/release)")
    parser.add_argument("--url", default=_URL, help="where people download releases (default %(default)s)")
    parser.add_argument(
        "--parts",
        default=",".join(PARTS),
        help="comma-separated list of parts (default: all, %(default)s)",
    )
    parser.set_defaults(carry_out=_build)
    return run(parser, arguments)


def _build(options: argparse.Namespace) -> int:
    version = checked_version(options.release)
    parts = chosen_parts(options.parts)
    out = (options.out / version).resolve()
    with tempfile.TemporaryDirectory(prefix="release-") as temporary:
        root = Path(temporary)
        # The files are complete before the folder of the release changes.
        new = _empty(root / "new")
        tree = export(Path.cwd(), version, _empty(root / "tree"))
        files: list[Path] = []
        for part in parts:
            report_progress(part)
            files += PARTS[part](tree, _empty(root / part), new, f"{options.url.rstrip('/')}/{version}")
        write_checksums(files, new)
        write_commands(tree, files, new)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(new, out)
    report_progress(f"{len(files)} files in {options.out / version}")
    return 0


def chosen_parts(text: str) -> list[str]:
    """Return the parts of a comma-separated list, in the order of their builds.

    Raises:
        MisuseError: a part is unknown.
    """
    chosen = {word.strip() for word in text.split(",")}
    unknown = sorted(chosen - set(PARTS))
    if unknown:
        raise MisuseError(f"--parts: {unknown[0]!r} is not one of {', '.join(PARTS)}")
    return [part for part in PARTS if part in chosen]


def _empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


if __name__ == "__main__":
    sys.exit(main())
