"""The plugin's archive runs with Python alone: no pip, no environment, no library of this project's own."""

import json
import subprocess
import sys
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

from project_tools.chart_files import ROOT
from project_tools.release import plugin_archives
from project_tools.release.source_tree import SourceTree, export

VERSION = "7.8.9"
URL = "https://releases.example.com/7.8.9"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[SourceTree, Path]:
    """One platform, with every version of Python: this machine's."""
    tree = export(ROOT, VERSION, tmp_path_factory.mktemp("tree"))
    out = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        platform = {("linux", "amd64"): plugin_archives.PLATFORMS["linux", "amd64"]}
        patch.setattr(plugin_archives, "PLATFORMS", platform)
        plugin_archives.build_plugins(tree, tmp_path_factory.mktemp("work"), out, URL)
    return tree, out


@pytest.fixture(scope="module")
def plugin(built: tuple[SourceTree, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    with tarfile.open(built[1] / f"kubectl-rmqha-{VERSION}-linux-amd64.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    # As Krew installs it: a symbolic link in another folder.
    link = folder / "links" / "kubectl-rmqha"
    link.parent.mkdir()
    link.symlink_to(folder / "kubectl-rmqha")
    return link


def run(plugin: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it with the system's Python, without site packages."""
    command = [sys.executable, "-I", "-S", str(plugin), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"})


def test_it_tells_its_version_and_commit(plugin: Path, built: tuple[SourceTree, Path]) -> None:
    assert run(plugin, "--version").stdout == f"kubectl rmqha {VERSION} (commit {built[0].commit})\n"


@pytest.mark.parametrize(
    "command", ["status", "switchover", "failovers", "explain", "report", "bootstrap", "migrate"]
)
def test_every_command_is_there(plugin: Path, command: str) -> None:
    result = run(plugin, command, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"usage: kubectl rmqha {command}")


def test_it_asks_an_api_server(plugin: Path, tmp_path: Path) -> None:
    paths: list[str] = []

    class Refuse(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            body = json.dumps({"kind": "Status", "message": "no rights here", "code": 403}).encode()
            self.send_response(403)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Refuse) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        config = tmp_path / "config"
        config.write_text(_kubeconfig(server.server_address[1]), encoding="utf-8")
        result = run(plugin, "status", f"--kubeconfig={config}")
        server.shutdown()
        thread.join()
    assert paths
    assert result.returncode == 1
    assert "no rights here" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_manifest_of_krew_names_each_archive_with_its_digest(built: tuple[SourceTree, Path]) -> None:
    manifest = yaml.safe_load((built[1] / "rmqha.yaml").read_text(encoding="utf-8"))
    (platform,) = manifest["spec"]["platforms"]
    assert platform["uri"] == f"{URL}/kubectl-rmqha-{VERSION}-linux-amd64.tar.gz"
    digest = subprocess.run(
        ["sha256sum", f"kubectl-rmqha-{VERSION}-linux-amd64.tar.gz"],
        cwd=built[1],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()[0]
    assert platform["sha256"] == digest
    assert manifest["spec"]["version"] == f"v{VERSION}"


def _kubeconfig(port: int) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "users": [{"name": "me", "user": {}}],
        }
    )
