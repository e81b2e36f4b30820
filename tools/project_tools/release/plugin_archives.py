"""The plugin `kubectl rmqha` as archives that need only Python 3.11 or later, and the manifest of Krew.

Problem: people install kubectl plugins with Krew, not with pip. Shape: an archive for each platform has the
program, our modules and the libraries that they import, with compiled parts for each supported version of
Python side by side: the names of those files carry the version. Never: a library that only other
programs use.
"""

import hashlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from project_tools.release.archives import files_below, write_tar_gz
from project_tools.release.commands import export_libraries, run_uv
from project_tools.release.source_tree import PACKAGES, SourceTree

PLATFORMS: Final = {
    ("linux", "amd64"): "x86_64-manylinux_2_28",
    ("linux", "arm64"): "aarch64-manylinux_2_28",
    ("darwin", "amd64"): "x86_64-apple-darwin",
    ("darwin", "arm64"): "aarch64-apple-darwin",
}
"""Krew's operating system and architecture, and uv's name of the platform.

Windows is missing: its kubectl runs only `.exe` files, and a Python program does not come as one.
"""
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
NOT_IMPORTED: Final = frozenset({"aiohttp", "cryptography", "google-crc32c", "prometheus-client", "uvloop"})
"""Requirements of our packages that the plugin does not import. A test runs the archive without them."""
OF_OTHERS: Final = frozenset(
    {
        "aiohappyeyeballs",
        "aiohttp-retry",
        "aiosignal",
        "attrs",
        "cffi",
        "frozenlist",
        "multidict",
        "propcache",
        "pycparser",
        "yarl",
    }
)
"""What only those need."""
_PACKAGES: Final = ("controller_core/controller_core", "operator/rocketmq_operator")
_UNUSED_FILES: Final = re.compile(
    r"(^|/)(__pycache__|tests?|bin)/|\.pyi$|(^|/)\.lock$|/(RECORD|INSTALLER|REQUESTED)$"
)
_PROGRAM: Final = '''\
#!/usr/bin/env python3
"""kubectl rmqha, version {version}."""
import os
import sys

if not (3, 11) <= sys.version_info[:2] <= (3, 14):
    sys.exit("kubectl rmqha: needs Python 3.11 to 3.14, not " + sys.version.split()[0])
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
os.environ.setdefault("ROCKETMQ_HA_COMMIT", "{commit}")
from {module} import main

sys.exit(main())
'''
_PROGRAMS: Final = {
    "kubectl-rmqha": "rocketmq_operator.plugin.cli",
    "kubectl_complete-rmqha": "rocketmq_operator.plugin.completion",
}


def build_plugins(tree: SourceTree, work: Path, out: Path, url: str) -> list[Path]:
    """Write an archive for each platform and Krew's manifest `rmqha.yaml`, and return them.

    Args:
        tree: with the plugin's modules.
        work: an empty folder.
        out: where the files go.
        url: where people will download them, without a slash at its end.

    Raises:
        FailedError: uv is not installed, or a library lacks a wheel for a platform.
    """
    requirements = _requirements(tree, work)
    archives = {
        platform: _archive(tree, work / "-".join(platform), requirements, platform, out)
        for platform in PLATFORMS
    }
    manifest = out / "rmqha.yaml"
    text = yaml.safe_dump(krew_manifest(tree, archives, url), sort_keys=False, width=110)
    manifest.write_text(text, encoding="utf-8")
    return [*archives.values(), manifest]


def krew_manifest(tree: SourceTree, archives: Mapping[tuple[str, str], Path], url: str) -> dict[str, Any]:
    """Return the manifest (krew.googlecontainertools.github.com/v1alpha2, kind Plugin)."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": system, "arch": architecture}},
            "uri": f"{url}/{archive.name}",
            "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
            "bin": "kubectl-rmqha",
        }
        for (system, architecture), archive in archives.items()
    ]
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "rmqha"},
        "spec": {
            "version": f"v{tree.version}",
            "shortDescription": "Show and switch over RocketMQ broker groups",
            "description": "Status, failovers, switchover and migration of broker groups.",
            "caveats": "It needs Python 3.11 or later in PATH as python3.",
            "platforms": platforms,
        },
    }


def _requirements(tree: SourceTree, work: Path) -> Path:
    """Write the plugin's libraries with their hashes, as uv.lock pins them."""
    unused = [word for name in sorted(NOT_IMPORTED | OF_OTHERS) for word in ("--no-emit-package", name)]
    requirements = work / "requirements.txt"
    requirements.write_bytes(export_libraries([PACKAGES["operator"]], tree.root, *unused))
    return requirements


def _archive(
    tree: SourceTree, folder: Path, requirements: Path, platform: tuple[str, str], out: Path
) -> Path:
    library = folder / "lib"
    for python in PYTHONS:
        _install(tree, folder / python, requirements, PLATFORMS[platform], python)
        shutil.copytree(folder / python, library, dirs_exist_ok=True)
    for package in _PACKAGES:
        shutil.copytree(tree.root / package, library / Path(package).name)
    (library / "rocketmq_ha_operator.dist-info").mkdir()
    metadata = f"Metadata-Version: 2.1\nName: rocketmq-ha-operator\nVersion: {tree.version}\n"
    (library / "rocketmq_ha_operator.dist-info" / "METADATA").write_text(metadata, encoding="utf-8")
    files = {
        name: path for name, path in files_below(library, "lib/").items() if not _UNUSED_FILES.search(name)
    }
    for name, module in _PROGRAMS.items():
        path = folder / name
        text = _PROGRAM.format(version=tree.version, commit=tree.commit, module=module)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
        files[name] = path
    files["LICENSE"] = tree.root / "LICENSE"
    target = out / f"kubectl-rmqha-{tree.version}-{'-'.join(platform)}.tar.gz"
    write_tar_gz(target, files, tree.commit_time_s)
    return target


def _install(tree: SourceTree, target: Path, requirements: Path, platform: str, python: str) -> None:
    words = ["pip", "install", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    words += ["--python-platform", platform, "--python-version", python, "--link-mode", "copy"]
    words += ["--target", str(target), "-r", str(requirements)]
    run_uv(words, tree.root)
