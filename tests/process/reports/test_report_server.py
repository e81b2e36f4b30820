"""The report server as a process: ready, answering, ended by a signal, and one line per error."""

import re
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from slo_pipeline.reports.files.folder import write_pages
from testkit.generators.sample_report import report
from testkit.processes.process import ManagedProcess

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]
START_S_MAX = 60.0


def _server(directory: Path, *options: str) -> ManagedProcess:
    program = Path(sys.executable).parent / "slo-pipeline"
    command = [str(program), "serve-reports", *options]
    return ManagedProcess("serve-reports", command, directory / "server.log")


async def test_reports_that_are_added_while_it_runs_are_shown(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    async with _server(tmp_path, str(tmp_path / "reports"), "--http", "127.0.0.1:0") as process:
        await process.wait_for_text("ready", START_S_MAX)
        found = re.search(r"'127\.0\.0\.1', (\d+)", process.output())
        assert found is not None
        root = f"http://127.0.0.1:{found[1]}"
        async with aiohttp.ClientSession() as session:
            async with session.get(root) as answer:
                assert "No reports yet." in await answer.text()
            write_pages(report(), tmp_path / "reports" / "week-47")
            async with session.get(f"{root}/failovers/demo/orders/2") as answer:
                assert answer.status == 200
                assert "Failover of orders to epoch 2" in await answer.text()
            async with session.get(f"{root}/reports/week-47/") as answer:
                assert answer.headers["Content-Encoding"] == "gzip"
                assert answer.url.path == "/reports/week-47/"
                assert "The last failover" in await answer.text()
        process.signal(signal.SIGTERM)
        assert await process.wait(START_S_MAX) == 0, process.tail()


@pytest.mark.parametrize(
    ("http", "said"),
    [("nowhere", "nowhere"), ("127.0.0.1:0", "no such directory")],
    ids=["address", "directory"],
)
async def test_what_cannot_be_served_is_one_line(tmp_path: Path, http: str, said: str) -> None:
    directory = tmp_path if said == "nowhere" else tmp_path / "missing"
    async with _server(tmp_path, str(directory), "--http", http) as process:
        assert await process.wait(START_S_MAX) == 2
        assert said in process.output()
        assert process.output().count("\n") == 1
