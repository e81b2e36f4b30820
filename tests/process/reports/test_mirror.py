"""`slo-pipeline mirror` as a process, and a server that speaks S3.

Everything arrives once and whole, after a kill too.
"""

import asyncio
import datetime as dt
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testkit.generators.segments_in_bulk import contents, segment
from testkit.processes.bucket import NAME, Bucket, served
from testkit.processes.process import ManagedProcess

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

DAY, NEXT = dt.date(2026, 11, 20), dt.date(2026, 11, 21)
MANY = 400
FILE_BYTES = 20_000
PREFIX = "clusters/main"
WITHIN_S = 90.0


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bucket]:
    with served(tmp_path_factory.mktemp("bucket")) as one:
        one.make()
        yield one


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for day in (DAY, NEXT):
        for kind in ("samples", "events", "probe_ops", "extract_samples"):
            segment(tmp_path / "data", kind, day, f"{kind}@{day}")
    segment(tmp_path / "data", "samples", DAY, "as large as three parts", padding=b"x" * 20_000_000)
    segment(tmp_path / "data", "samples", DAY, ".unfinished")
    return tmp_path / "data"


def _process(directory: Path, bucket: Bucket, *words: str) -> ManagedProcess:
    program = Path(sys.executable).parent / "slo-pipeline"
    command = [str(program), "mirror", *words, f"--endpoint={bucket.endpoint}"]
    return ManagedProcess("mirror", command, directory / "mirror.log", env=bucket.env)


async def _run(directory: Path, bucket: Bucket, *words: str) -> tuple[int, str]:
    process = _process(directory, bucket, *words)
    async with process:
        return await process.wait(WITHIN_S), process.output()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110 - what another process writes signals nothing
            await asyncio.sleep(0.02)


async def test_segments_go_to_a_bucket_and_come_back_the_same(
    tmp_path: Path, bucket: Bucket, data: Path
) -> None:
    there, back = f"s3://{NAME}/there//and/", tmp_path / "back"
    status, said = await _run(tmp_path, bucket, str(data), there)
    assert (status, said.split(",")[0]) == (0, "9 files")
    assert bucket.contents("there/and") == contents(data)
    assert await _run(tmp_path, bucket, str(data), there) == (0, "")
    status, said = await _run(tmp_path, bucket, there, str(back), "--since=2026-11-21")
    assert (status, said.split(",")[0]) == (0, "4 files")
    assert (await _run(tmp_path, bucket, there, str(back)))[0] == 0
    assert contents(back) == contents(data)
    # From one prefix to another, without a disk between.
    assert (await _run(tmp_path, bucket, there, f"s3://{NAME}/elsewhere"))[0] == 0
    assert bucket.contents("elsewhere") == contents(data)


async def test_an_object_of_another_size_is_named_and_left_as_it_is(
    tmp_path: Path, bucket: Bucket, data: Path
) -> None:
    name = "events/day=2026-11-20/events@2026-11-20.parquet"
    bucket.write(f"apart/{name}", b"another")
    status, said = await _run(tmp_path, bucket, str(data), f"s3://{NAME}/apart")
    assert status == 1
    assert f"{name} is of another size there than here" in said
    assert bucket.read(f"apart/{name}") == b"another"
    assert len(bucket.sizes("apart")) == 9


async def test_a_mirror_that_is_killed_goes_on_where_it_was(tmp_path: Path, bucket: Bucket) -> None:
    data, back = tmp_path / "data", tmp_path / "back"
    for number in range(MANY):
        segment(data, "samples", DAY, f"collector@1-{number:06d}", padding=str(number).encode() * FILE_BYTES)
    sizes = {path: len(content) for path, content in contents(data).items()}
    there = f"s3://{NAME}/killed"
    async with _process(tmp_path, bucket, str(data), there) as process:
        await _until(lambda: len(bucket.sizes("killed")) >= 10)
        await process.kill()
    first = bucket.sizes("killed")
    assert 0 < len(first) < MANY
    assert first.items() <= sizes.items()
    assert (await _run(tmp_path, bucket, str(data), there))[0] == 0
    assert bucket.sizes("killed") == sizes

    async with _process(tmp_path, bucket, there, str(back)) as process:
        await _until(lambda: len(contents(back)) >= 10)
        await process.kill()
    first_back = contents(back)
    assert 0 < len(first_back) < MANY
    assert first_back.items() <= contents(data).items()
    status, said = await _run(tmp_path, bucket, there, str(back))
    assert (status, said.split(",")[0]) == (0, f"{MANY - len(first_back)} files")
    assert contents(back) == contents(data)


async def test_one_that_follows_waits_for_its_bucket_and_for_segments_until_it_is_told_to_end(
    tmp_path: Path, data: Path
) -> None:
    with served(tmp_path) as bucket:
        there = f"s3://{NAME}/{PREFIX}"
        async with (
            _process(tmp_path, bucket, str(data), there, "--follow=200ms") as process,
            _process(tmp_path / "second", bucket, there, str(tmp_path / "back"), "--follow=200ms") as second,
        ):
            for one in (process, second):
                await one.wait_for_text("bucket", WITHIN_S)
            bucket.make()
            await _until(lambda: len(bucket.sizes(PREFIX)) == 9)
            segment(data, "probe_ops", NEXT, "canary@2-000001")
            await _until(lambda: len(contents(tmp_path / "back")) == 10)
            for one in (process, second):
                one.signal(signal.SIGTERM)
                assert await one.wait(WITHIN_S) == 0
    assert "1 files, " in process.output()


async def test_a_bucket_that_is_not_there_is_one_line(tmp_path: Path, bucket: Bucket, data: Path) -> None:
    to, back = (str(data), "s3://nobody-has-it/x"), ("s3://nobody-has-it/x", str(tmp_path / "back"))
    for words, failed in ((to, 1), (back, 2)):
        status, said = await _run(tmp_path, bucket, *words)
        assert status == failed
        assert said.startswith("slo-pipeline: ")
        assert said.count("\n") == 1
        assert "nobody-has-it" in said
