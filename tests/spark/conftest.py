"""One Spark session for all tests of this folder, and one story computed once."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from slo_pipeline.jobs import gather
from slo_pipeline.jobs.gold import gold
from slo_pipeline.jobs.period import Period
from slo_pipeline.jobs.spark.session import session
from slo_pipeline.jobs.survey import surveyed
from slo_pipeline.objectives.file import load
from slo_pipeline.reports.page.document import render
from slo_pipeline.reports.values.model import Report
from slo_pipeline.sources.segments import read_inputs
from testkit.generators import synthetic

# Spark's Python side leaves sockets to its gateway for the collector to close, which
# says nothing about our code.
IGNORED = (
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)
# The first test pays for the start of a JVM and of Python workers.
TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            for rule in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(rule))


@pytest.fixture(scope="module", autouse=True)
def swept() -> Iterator[None]:
    """Have those sockets collected under the rules above, and not during another folder's test."""
    yield
    gc.collect()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session(master="local[2]", name="tests", shuffle_partitions=2, quick=True)
    yield made
    made.stop()


class StoryTables(NamedTuple):
    """A story, and everything the jobs found in its segments."""

    story: synthetic.Story
    directory: Path
    tables: dict[str, list[gather.Row]]
    over: Period
    report: Report
    page: str


@pytest.fixture(scope="session")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StoryTables:
    story = synthetic.with_losses(synthetic.two_failovers_and_a_switchover(), "payments", (100, 101))
    directory = tmp_path_factory.mktemp("story")
    synthetic.write(story, directory)
    now_us = story.us(story.duration_s * 1_000)
    inputs, over, found = surveyed(read_inputs(spark, directory), now_us, 30, directory)
    tables = gather.collect(gold(inputs, over, load())) | found
    report = gather.report(tables, over, load(), "Story")
    return StoryTables(story, directory, tables, over, report, render(report))
