"""A real Prometheus that holds a known history, and promtool, for tests that compare with them.

They are looked for on the PATH, then in the user's cache; if they are in neither and `apt-get` is there,
Debian's package is downloaded (as its ordinary client does, without root) and unpacked into the cache, not
installed: nothing of it runs as a service. Where none of that works, `programs` says why in one line, and
the test is skipped with it.
"""

import contextlib
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from testkit.processes.ports import free_ports

_PACKAGE = "prometheus"
_DOWNLOAD_TIMEOUT_S = 120
_READY_TIMEOUT_S = 60.0
_POLL_S = 0.1
_ANSWER_TIMEOUT_S = 600.0
"""A month takes minutes."""


class Programs(NamedTuple):
    """Paths of the two programs."""

    prometheus: str
    promtool: str


class PrometheusUnavailableError(Exception):
    """Prometheus is missing here; the text lists the attempts in one line."""


def _cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "rocketmq-ha" / "debian-prometheus"


def programs() -> Programs:
    """Return Prometheus and promtool.

    Raises:
        PrometheusUnavailableError: they are missing and could not be downloaded.
    """
    server, tool = shutil.which("prometheus"), shutil.which("promtool")
    if server and tool:
        return Programs(server, tool)
    unpacked = _cache() / "usr" / "bin"
    if not (unpacked / "promtool").is_file():
        _download()
    return Programs(str(unpacked / "prometheus"), str(unpacked / "promtool"))


def _download() -> None:
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise PrometheusUnavailableError("no prometheus on the PATH, and no apt-get to download it with")
    target = _cache()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        try:
            subprocess.run(
                ["apt-get", "download", _PACKAGE],
                cwd=scratch,
                check=True,
                capture_output=True,
                timeout=_DOWNLOAD_TIMEOUT_S,
            )
            package = next(Path(scratch).glob("*.deb"))
            subprocess.run(["dpkg", "-x", package, Path(scratch) / "root"], check=True, capture_output=True)
        except (subprocess.SubprocessError, StopIteration) as error:
            raise PrometheusUnavailableError(
                f"no prometheus on the PATH; apt-get download: {error}"
            ) from error
        if not target.is_dir():
            (Path(scratch) / "root").rename(target)


@contextlib.contextmanager
def serving(history: str, directory: Path) -> Iterator[str]:
    """Serve an OpenMetrics text from a Prometheus of its own; yield its address.

    Args:
        history: samples with timestamps, ended by `# EOF`; at least some hours old, as blocks are.
        directory: scratch for text, blocks and log.
    """
    text, data = directory / "history.om", directory / "tsdb"
    text.write_text(history)
    subprocess.run(blocks_command(text, data), check=True, capture_output=True)
    with serving_blocks(data, directory) as address:
        yield address


def blocks_command(text: Path, data: Path) -> list[str]:
    """Return the command that makes Prometheus' blocks of an OpenMetrics text."""
    return [programs().promtool, "tsdb", "create-blocks-from", "openmetrics", str(text), str(data)]


@contextlib.contextmanager
def serving_blocks(data: Path, directory: Path) -> Iterator[str]:
    """Serve blocks from a Prometheus of its own; yield its address. `directory` takes settings and log."""
    settings = directory / "prometheus.yml"
    settings.write_text("global: {scrape_interval: 1h}\n")
    address = f"127.0.0.1:{free_ports(1)[0]}"
    command = [
        programs().prometheus,
        f"--config.file={settings}",
        f"--storage.tsdb.path={data}",
        # Old blocks would be deleted at the start otherwise.
        "--storage.tsdb.retention.time=4000d",
        f"--web.listen-address={address}",
    ]
    with (directory / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_until_ready(f"http://{address}", process)
            yield f"http://{address}"
        finally:
            process.terminate()
            try:
                process.wait(_READY_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def asked(address: str, path: str, **options: object) -> Any:
    """Ask a Prometheus over its HTTP API and return the answer's `data`."""
    url = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection(url.netloc, timeout=_ANSWER_TIMEOUT_S)
    try:
        connection.request("GET", f"{path}?{urllib.parse.urlencode(options)}")
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise PrometheusUnavailableError(f"{path}: status {answer.status}: {text[:300]!r}")
    return json.loads(text)["data"]


def _wait_until_ready(address: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PrometheusUnavailableError(f"prometheus ended with {process.returncode} at its start")
        # It refuses connections first, and answers 503 until it has read its blocks.
        with contextlib.suppress(OSError, http.client.HTTPException, PrometheusUnavailableError):
            asked(address, "/api/v1/query", query="1")
            return
        time.sleep(_POLL_S)
    raise PrometheusUnavailableError("prometheus did not become ready")
