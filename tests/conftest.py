"""Settings for all tests."""

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from testkit.rocketmq.processes import SHORT_RUNS_VARIABLE

os.environ.setdefault(SHORT_RUNS_VARIABLE, "1")

# Hypothesis gives an example 200 ms, and ten of them a second to be made: bounds on the machine, which may
# stand still for longer, and on nothing that is ours. A test that hangs is ended by pytest's own time-out.
settings.register_profile(
    "search", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# The same examples in every run: failures are reproducible. New ones: HYPOTHESIS_PROFILE=search make test.
settings.register_profile("tests", settings.get_profile("search"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))

_PROCESSES = "process"
_FIRST = ("kube", "spark", "conformance", _PROCESSES, "simulation")
"""Folders whose tests take long; what shares something first."""
_STARTED_S = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what bounds the time of a run."""
    parser.addoption(
        "--minutes",
        type=float,
        metavar="N",
        help="begin no test of real processes later than N minutes after the start",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test of real processes whose turn comes too late."""
    minutes = item.config.getoption("--minutes")
    if minutes is not None and _folder(item) == _PROCESSES and time.monotonic() > _STARTED_S + 60 * minutes:
        pytest.skip(f"not run: its turn came more than {minutes:g} minutes after the start (--minutes)")


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """Undo what a test did to the log of its process.

    A program that a test runs inside its own process sets up the log, and its handler outlives the captured
    stream that it writes to.
    """
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    for handler in root.handlers[:]:
        if handler not in before:
            root.removeHandler(handler)
    root.setLevel(level)


# Two hooks, as what marks has to come before the plugin that reads the marks, and what
# sorts after the one that mixes.


@pytest.hookimpl(tryfirst=True, specname="pytest_collection_modifyitems")
def pytest_keep_together(items: list[pytest.Item]) -> None:
    """Have tests that share something costly run in one process, when there are several."""
    for item in items:
        if group := _sharing(item):
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(trylast=True, specname="pytest_collection_modifyitems")
def pytest_begin_with_the_long(items: list[pytest.Item]) -> None:
    """Begin with the slow tests: several processes are done at about the same time then."""
    items.sort(key=lambda item: _FIRST.index(part) if (part := _folder(item)) in _FIRST else len(_FIRST))


def _folder(item: pytest.Item) -> str:
    """Return the folder of `tests` that a test is in."""
    return item.path.relative_to(Path(__file__).parent).parts[0]


def _sharing(item: pytest.Item) -> str:
    """Name what a test shares with others (a release, a Spark session, a JVM with stores), or return ""."""
    folder = _folder(item)
    if folder in ("kube", "spark"):
        return folder
    of_version = item.name.rstrip("]").partition("[")[2].partition("-")[0]
    return f"{item.path.name} {of_version}" if "stores" in getattr(item, "fixturenames", ()) else ""


class _Teller:
    """Says at once why a test failed.

    A run may take an hour, and the report of a repeated test does not show the first failure.
    """

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the last line of what went wrong."""
        if report.outcome in {"failed", "rerun"}:
            crash = getattr(report.longrepr, "reprcrash", None)
            self._terminal.ensure_newline()
            self._terminal.write_line(
                f"{report.outcome}: {report.nodeid}: {crash.message if crash else report.longrepr}"
            )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Have failures told while others run."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        config.pluginmanager.register(_Teller(terminal), "teller")
