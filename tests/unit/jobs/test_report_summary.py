"""`slo-pipeline report --summary`: written beside and after the page, where no report is computed."""

import json
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from slo_pipeline.cli import main
from slo_pipeline.jobs import gather, inputs
from slo_pipeline.jobs import report as job
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.single_pass import driver
from slo_pipeline.reports.files.outcome import outcome
from testkit.generators.sample_report import report


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a report that is made by hand in the place of the computed one."""
    monkeypatch.setattr(inputs, "check_directory", MagicMock())
    monkeypatch.setattr(driver, "period_tables", lambda *_, **__: ({}, Period(0, 1)))
    monkeypatch.setattr(job, "write_tables", MagicMock())
    monkeypatch.setattr(gather, "report", lambda *_: report())


@pytest.mark.usefixtures("computed")
def test_the_summary_is_written_over_what_is_mounted_there(tmp_path: Path) -> None:
    out, summary = tmp_path / "out", tmp_path / "termination-log"
    summary.write_text("x" * 5_000)
    inode = summary.stat().st_ino
    assert main(["report", f"--input={tmp_path}", f"--out={out}", f"--summary={summary}"]) == 0
    assert json.loads(summary.read_text()) == outcome(report(), str(out / "index.html"))
    assert summary.stat().st_ino == inode


@pytest.mark.usefixtures("computed")
def test_a_summary_that_cannot_be_written_is_said_and_the_page_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = tmp_path / "nowhere" / "summary"
    assert main(["report", f"--input={tmp_path}", f"--out={tmp_path / 'out'}", f"--summary={summary}"]) == 1
    assert str(summary) in capsys.readouterr().err
    assert (tmp_path / "out" / "index.html").exists()


@pytest.mark.usefixtures("computed")
def test_no_summary_is_written_unless_asked(tmp_path: Path) -> None:
    assert main(["report", f"--input={tmp_path}", f"--out={tmp_path / 'out'}"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
