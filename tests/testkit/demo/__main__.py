"""`make demo`: the whole chain on this machine, on real brokers, with a verdict.

Starts the cluster, sends, breaks it three times, reads back every acknowledged message, prints a timeline and
`acknowledged N, lost M`, and makes the report. Exits 0 only if every step ended well and nothing was lost;
ends every process it started, also on Ctrl-C, unless told to keep the cluster.
"""

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from testkit.demo import kept
from testkit.demo.cluster import CLUSTER, GROUP, DemoCluster
from testkit.demo.evidence import collected_events, failover_records, timelines
from testkit.demo.progress import StepPrinter
from testkit.demo.story import DemoError, DemoStory, Happened, wait_whole
from testkit.processes.process import ManagedProcess, ProcessFailedError
from testkit.products.controllers import command_path
from testkit.rocketmq.jars import DEFAULT_VERSION, JarsUnavailableError, jars
from testkit.rocketmq.load import LoadClient, LoadSettings, ReadBackResult, read_back

_TOPIC = "demo"
_WARM_UP_ACKS = 1_000
_WARM_UP_TIMEOUT_S = 180.0
_REPORT_TIMEOUT_S = 180.0
# The Java client asks for routes every 30 s on its defaults. On Kubernetes the operator moves the dead
# master's address instead; on loopback no controller does that, so here the client asks more often.
_LOAD = LoadSettings(threads=4, rate=500, poll_name_server_ms=200)

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def main() -> int:
    """Run the demo as the command line says and return the exit status."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument(
        "--rocketmq", default=DEFAULT_VERSION, metavar="VERSION", help="release of broker and client"
    )
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for everything that is written")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")
    parser.add_argument("--stop", action="store_true", help="only end a cluster that was left running")
    arguments = parser.parse_args()
    directory: Path = arguments.out.resolve() / "demo"
    ended = kept.end_kept(directory)
    if arguments.stop:
        print(f"ended {ended} processes")
        return EXIT_OK
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    progress = StepPrinter()
    try:
        return asyncio.run(_interruptible(_run(arguments, directory, progress)))
    except asyncio.CancelledError:
        progress.fail("interrupted; everything that was started is stopped")
        return EXIT_INTERRUPTED
    except (DemoError, ProcessFailedError, JarsUnavailableError) as error:
        progress.fail(str(error))
        return EXIT_FAILED


async def _interruptible(run: Coroutine[Any, Any, int]) -> int:
    """Run to the end, or until the first Ctrl-C or SIGTERM; later ones do not disturb the clean-up."""
    task = asyncio.create_task(run)
    loop = asyncio.get_running_loop()
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        if not interrupted:
            interrupted = True
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    return await task


async def _run(arguments: argparse.Namespace, directory: Path, progress: StepPrinter) -> int:
    with progress.step(f"jars of RocketMQ {arguments.rocketmq}"):
        release = await jars(arguments.rocketmq)
    cluster = DemoCluster(release, directory, progress)
    load = LoadClient(release, cluster.name_server.address, _TOPIC, directory / "load", _LOAD)
    report = arguments.out.resolve() / "report"
    kept_running = False
    try:
        happened = await _send_and_break(cluster, load, progress)
        result = await _read_back(cluster, load, release, progress)
        records = await failover_records(cluster)
        await cluster.stop_measuring()
        lines = timelines(happened, records, collected_events(cluster.data), load.sends())
        with progress.step("report"):
            await _make_report(cluster, report)
        _print_findings(
            lines_of=[line for timeline in lines for line in timeline.lines()], result=result, report=report
        )
        if arguments.keep:
            kept_running = True
            kept.write_down(directory, cluster.pids())
            _print_ways_to_look(cluster, release)
        return EXIT_FAILED if result.lost else EXIT_OK
    finally:
        await load.process.stop()
        if not kept_running:
            with progress.step("stop of everything"):
                await cluster.stop()


async def _send_and_break(cluster: DemoCluster, load: LoadClient, progress: StepPrinter) -> list[Happened]:
    await cluster.start()
    with progress.step("every member in the SyncStateSet"):
        await wait_whole(cluster)
    with progress.step("Java client, canary and collector"):
        await load.start()
        await cluster.start_measuring()
        await load.wait_for_acknowledged(_WARM_UP_ACKS, _WARM_UP_TIMEOUT_S)
    happened = await DemoStory(cluster, load, progress).tell()
    stats = await load.stop()
    progress.say(f"load: {stats.acknowledged} acknowledged, {stats.failed} failed {stats.statuses or ''}")
    return happened


async def _read_back(
    cluster: DemoCluster, load: LoadClient, release: Path, progress: StepPrinter
) -> ReadBackResult:
    with progress.step("read back of every acknowledged message"):
        return await read_back(
            release, cluster.name_server.address, _TOPIC, load.sends(), cluster.directory / "load"
        )


async def _make_report(cluster: DemoCluster, report: Path) -> None:
    command = [command_path("slo-pipeline"), "report", "--input", str(cluster.data), "--out", str(report)]
    job = ManagedProcess("report job", command, cluster.directory / "report.log")
    async with job:
        if await job.wait(_REPORT_TIMEOUT_S) != 0:
            raise ProcessFailedError(f"the report job failed:\n{job.tail()}")


def _print_findings(lines_of: list[str], result: ReadBackResult, report: Path) -> None:
    print()
    for line in lines_of:
        print(line)
    print()
    print(f"read {result.read}, duplicates {len(result.duplicates)}, unexpected {len(result.unexpected)}")
    print(f"acknowledged {result.acknowledged}, lost {len(result.lost)}")
    for key in sorted(result.lost)[:10]:
        print(f"  lost: {key}")
    print(f"report: {report / 'index.html'}")


def _print_ways_to_look(cluster: DemoCluster, release: Path) -> None:
    controllers = cluster.controllers
    address = controllers.remoting_addresses[0]
    mqadmin = f"java -cp '{release}/*' org.apache.rocketmq.tools.command.MQAdminStartup"
    print("\nthe cluster is still running; look at it with")
    print(f"  {command_path('controller-core')} status --server {','.join(controllers.http_addresses)}")
    print(f"  {command_path('controller-core')} groups --server {','.join(controllers.http_addresses)}")
    print(f"  {mqadmin} getSyncStateSet -a {address} -b {GROUP}")
    print(f"  {mqadmin} clusterList -n {cluster.name_server.address} -c {CLUSTER}")
    for name, url in cluster.metrics_urls().items():
        if name != cluster.canary.name:
            print(f"  curl -s {url}   # {name}")
    out = cluster.directory.parent
    print(
        f"and end it with\n  {sys.executable} -m testkit.demo --out {out} --stop   "
        "(the next make demo ends it too)"
    )


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
