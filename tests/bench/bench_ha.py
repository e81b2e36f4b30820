"""What it costs to move a log over the HA port: Java's master and slave, ours, and raw sendfile, in one run.

    make bench-ha MEGABYTES=512, or python tests/bench/bench_ha.py [--only java|ours] [--seconds 6]

One log of 4 KB messages lies in the page cache and is moved to slave after slave, each with an empty store,
on loopback. Printed for each pair: megabytes a second between the slave's first acknowledgement and that of
the log's end, seconds of a CPU of each side in that time, and then, with the slave at the end of the log, how
long one message takes until the slave has acknowledged it. Of a Java master that is a client's whole send,
one after another, with every member of the SyncStateSet needed (`alone` is such a send without a slave); of
ours it is from the append on.

The Java master writes 32 KiB a frame and has sent the log once, to a slave that drops it, before it is
measured. Java's slave is a broker: it builds its queues at the same time, on CPU time that counts. A
seed's time is what it says itself: from before it connects until all is checked, durable and done; as
Java's slave, it is not charged with the start of its interpreter, which the row of the whole command has,
from start to exit. Measurements of a second or less run for several rounds, ours and raw sendfile in
turns; the row is the median round.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from controller_core.channel import ChannelError, connect
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import ExchangeHAInfoRequestHeader
from ha_sidecar.address import host_port
from ha_sidecar.commitlog.store import ReplicaStore
from testkit.fakes.broker import FakeBroker
from testkit.ha import end_processes as ha_ends
from testkit.ha.end_processes import End, Transfer
from testkit.ha.java_group import BOOT_TIMEOUT_S, CLUSTER, GROUP, JavaGroup
from testkit.ha.stores import fill
from testkit.processes.certificates import Authority
from testkit.products.controllers import command_path
from testkit.products.one_controller import one_node
from testkit.products.replica import LogReplicaProcess
from testkit.rocketmq.jars import jars
from testkit.rocketmq.processes import QUICK_SETTINGS, BrokerPlace, JavaBroker, NameServer

FILE_BYTES = 1 << 28
BODY_BYTES = 4_000
LATENCIES = 500
ROUNDS = 5
"""For measurements of less than a second: one round says little, as fresh pages come fast or slowly."""
SETTINGS = {
    **QUICK_SETTINGS,
    "allAckInSyncStateSet": "true",
    "brokerRole": "SYNC_MASTER",
    "mappedFileSizeCommitLog": str(FILE_BYTES),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One pair of master and slave."""

    name: str
    transfer: Transfer | None
    latencies_s: list[float]

    def text(self) -> str:
        """Return it as a row of the table."""
        cells = [self.name]
        if self.transfer is None:
            cells += ["-", "-", "-"]
        else:
            moved = self.transfer
            rate = moved.moved_bytes / 1e6 / moved.took_s
            cells += [f"{rate:.0f}", f"{moved.master_cpu_s:.2f}", f"{moved.slave_cpu_s:.2f}"]
        ordered = sorted(self.latencies_s)
        for share in (0.5, 0.99):
            cells.append(f"{ordered[int(len(ordered) * share)] * 1000:.2f}" if ordered else "-")
        return f"| {' | '.join(cells)} |"


def say(text: str) -> None:
    """Print a line now."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# What follows has our HA port, or none, on the master's side.


def raw(name: str, source: Path, target: Path | None) -> Row:
    """Send the files without a protocol."""
    total_bytes = sum(path.stat().st_size for path in (source / "commitlog").iterdir())
    with End(ha_ends.send_raw, source / "commitlog") as sender:
        port = sender.answer()
        with End(ha_ends.take_raw, port, total_bytes, sender.pid, target, FILE_BYTES) as taker:
            return Row(name, taker.answer(), [])


def ours_to_nobody(source: Path) -> Row:
    """Serve the log to a slave that drops it."""
    with End(ha_ends.serve, source, FILE_BYTES) as server:
        port, end_offset = server.answer()
        with End(ha_ends.drop, ("127.0.0.1", port), end_offset, server.pid) as slave:
            return Row("our master, a slave that drops it", slave.answer(), [])


def ours_to_ours(
    name: str, work: Callable[..., None], source: Path, target: Path, *certificates: Path
) -> Row:
    """Serve the log to our slave, then single messages; with a directory of certificates in TLS."""
    with End(ha_ends.serve, source, FILE_BYTES, *certificates) as server:
        port, _ = server.answer()
        with End(work, target, FILE_BYTES, ("127.0.0.1", port), *certificates) as slave:
            slave.answer()
            server.tell("watch", slave.pid)
            slave.tell("go")
            transfer = server.answer()
            server.tell("latency", LATENCIES)
            return Row(name, transfer, server.answer())


async def ours_to_java(source: Path, directory: Path) -> Row:
    """Serve the log to a Java broker; a stand-in that only speaks to the controller is the group's master."""
    jar_directory = await jars()
    name_server = NameServer(jar_directory, directory / "ns")
    place = BrokerPlace(CLUSTER, GROUP, "slave", directory / "slave")
    await name_server.start()
    with End(ha_ends.serve, source, FILE_BYTES) as server:
        port, end_offset = await asyncio.to_thread(server.answer)
        async with (
            one_node(directory / "controller", {}) as node,
            FakeBroker([node.remoting], GROUP, cluster=CLUSTER) as master,
        ):
            await master.elect()
            master.epoch, master.max_offset = 1, end_offset
            broker = JavaBroker(
                jar_directory, place, name_server.address, SETTINGS, controllers=[node.remoting]
            )
            telling = None
            try:
                await broker.start(BOOT_TIMEOUT_S)
                server.tell("watch", broker.process.pid)
                telling = asyncio.create_task(_tell_ha_address(broker, port))
                transfer = await asyncio.to_thread(server.answer)
                server.tell("latency", LATENCIES)
                latencies_s = await asyncio.to_thread(server.answer)
                return Row("our master, Java slave", transfer, latencies_s)
            finally:
                if telling is not None:
                    telling.cancel()
                await broker.kill()
                await name_server.stop()


async def _tell_ha_address(broker: JavaBroker, port: int) -> None:
    """Tell a Java slave again and again where its master's HA port is; it forgets on a change of its role."""
    header = ExchangeHAInfoRequestHeader(master_ha_address=f"127.0.0.1:{port}")
    while True:
        with contextlib.suppress(ChannelError):
            connection = await connect(*host_port(broker.address), 1.0)
            request = RemotingCommand.request(RequestCode.EXCHANGE_BROKER_HA_INFO, header.to_ext())
            await connection.call(request, 2.0)
            connection.close()
        await asyncio.sleep(0.5)


async def seeded(source: tuple[str, int], target: Path, total_bytes: int, pid: int) -> tuple[Row, Row]:
    """Run `ha-sidecar seed` as a command; return what it says of itself, and what the whole command took."""
    arguments = {
        "cluster": CLUSTER,
        "group": GROUP,
        "store": str(target),
        "source": f"{source[0]}:{source[1]}",
        "mapped-file-bytes": str(FILE_BYTES),
    }
    words = [part for key, value in arguments.items() for part in (f"--{key}", value)]
    started_s, master_cpu_s = time.perf_counter(), ha_ends.processor_s(pid)
    slave_cpu_s = _ended_children_cpu_s()
    process = await asyncio.create_subprocess_exec(
        *(command_path("ha-sidecar"), "seed", "--output=json", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    printed, _ = await process.communicate()
    took_s, master_cpu_s = time.perf_counter() - started_s, ha_ends.processor_s(pid) - master_cpu_s
    slave_cpu_s = _ended_children_cpu_s() - slave_cpu_s
    said = json.loads(printed)
    copied_bytes = int(said["copied_bytes"])
    if process.returncode or copied_bytes < total_bytes:
        raise SystemExit(f"the seed copied {copied_bytes} of {total_bytes} bytes: {printed.decode()}")
    shutil.rmtree(target)
    whole = Row("", Transfer(copied_bytes, took_s, master_cpu_s, slave_cpu_s), [])
    itself = Transfer(copied_bytes, int(said["took_ms"]) / 1000, master_cpu_s, slave_cpu_s)
    return replace(whole, transfer=itself), whole


async def seeds(name: str, source: tuple[str, int], target: Path, total_bytes: int, pid: int) -> list[Row]:
    """Run it several times from one master; return the median rounds."""
    rounds = [await seeded(source, target, total_bytes, pid) for _ in range(ROUNDS)]
    itself, whole = (_middle(rows) for rows in zip(*rounds, strict=True))
    return [replace(itself, name=name), replace(whole, name=f"{name}, whole command")]


def _ended_children_cpu_s() -> float:
    """Return the CPU seconds of all ended children and of theirs: a seed checks in a second process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# What follows has a Java master.


async def _measured(group: JavaGroup, name: str, member: JavaBroker | LogReplicaProcess) -> Row:
    """Measure a slave with an empty store; it is gone afterwards."""
    try:
        await member.process.start()
        transfer = await group.watch(member.process.pid)
        return Row(name, transfer, await group.send_latencies_s(member.process.name, 2))
    finally:
        await member.process.kill()
        shutil.rmtree(member.store, ignore_errors=True)


async def with_java_master(source: Path, directory: Path, seconds: int) -> list[Row]:
    """Measure all that a Java master serves."""
    group = JavaGroup(await jars(), directory, SETTINGS, seconds)
    ha_address, rows = ("127.0.0.1", group.master.ha_port), []
    try:
        end_offset = await group.start(source)
        pid = group.master.process.pid
        with End(ha_ends.drop, ha_address, end_offset, pid) as slave:
            rows.append(Row("Java master, a slave that drops it", slave.answer(), []))
        rows.append(Row("Java master alone", None, await group.send_latencies_s("alone", 1)))
        for after in ("write", "sync"):
            name = f"Java master, our replica, ack after {after}"
            rows.append(await _measured(group, name, group.replica(after)))
        rows.append(await _measured(group, "Java master, Java slave", group.broker("slave")))
        for row in rows:
            say(row.text())  # so far; the rest may take a minute
        rows += await seeds("Java master, `ha-sidecar seed`", ha_address, directory / "seed", end_offset, pid)
    finally:
        await group.stop()
    return rows


def _ours_and_raw(source: Path, directory: Path) -> list[Row]:
    """Move the log once each way that takes less than a second.

    Each target is removed at once, and the next one is written to the pages that it leaves: pages that a
    virtual machine has never touched are several times slower to write to, and the first contestant of a
    round got the pages of the previous round.
    """

    def to_files(move: Callable[[Path], Row]) -> Row:
        target = directory / "target"
        target.mkdir(parents=True)
        row = move(target)
        shutil.rmtree(target)
        return row

    def ours(how: str, work: Callable[..., None], *certificates: Path) -> Row:
        name = f"our master, our slave, {how}"
        return to_files(lambda target: ours_to_ours(name, work, source, target, *certificates))

    directory.mkdir(parents=True, exist_ok=True)
    certificates = Authority(directory).member("member")
    return [
        raw("raw sendfile, dropped", source, None),
        to_files(lambda target: raw("raw sendfile, written to files", source, target)),
        ours_to_nobody(source),
        ours("ack after write", ha_ends.replicate_after_write),
        ours("ack after write, in TLS", ha_ends.replicate_in_tls, certificates),
        ours("ack after sync", ha_ends.replicate_after_sync),
    ]


def _middle(rounds: tuple[Row, ...]) -> Row:
    """Return the round of the median rate, with the latencies of all."""
    ordered = sorted(rounds, key=lambda row: row.transfer.took_s if row.transfer else 0.0)
    latencies_s = [latency_s for row in rounds for latency_s in row.latencies_s]
    return replace(ordered[len(ordered) // 2], latencies_s=latencies_s)


async def with_our_master(source: Path, directory: Path) -> list[Row]:
    """Measure all that our HA port serves, and the raw files beside."""
    rows = [
        _middle(rounds)
        for rounds in zip(*(_ours_and_raw(source, directory) for _ in range(ROUNDS)), strict=True)
    ]
    for row in rows:
        say(row.text())  # so far; the rest may take a minute
    rows.append(await ours_to_java(source, directory))
    with End(ha_ends.serve, source, FILE_BYTES) as server:
        port, end_offset = server.answer()
        address = ("127.0.0.1", port)
        name = "our master, `ha-sidecar seed`"
        rows += await seeds(name, address, directory / "seed", end_offset, server.pid)
    return rows


def print_table(rows: list[Row]) -> None:
    """Print all rows, and what the goals ask for."""
    say("\n| pair | MB/s | master's processor, s | slave's processor, s | one message p50, ms | p99, ms |")
    say("|---|---|---|---|---|---|")
    for row in rows:
        say(row.text())
    took = {row.name: row.transfer for row in rows if row.transfer is not None}

    def rate(name: str) -> float | None:
        found = took.get(name)
        return None if found is None else found.moved_bytes / found.took_s

    for what, one, other in (
        (
            "our replica (after sync) to Java's slave, same Java master",
            "Java master, our replica, ack after sync",
            "Java master, Java slave",
        ),
        (
            "seed to a Java slave's own catch-up, same Java master",
            "Java master, `ha-sidecar seed`",
            "Java master, Java slave",
        ),
        (
            "ours to ours (after write) to raw sendfile, both to files",
            "our master, our slave, ack after write",
            "raw sendfile, written to files",
        ),
        (
            "ours to ours in TLS to the same in plain TCP",
            "our master, our slave, ack after write, in TLS",
            "our master, our slave, ack after write",
        ),
        (
            "ours to a discarding slave to raw sendfile, both dropped",
            "our master, a slave that drops it",
            "raw sendfile, dropped",
        ),
    ):
        ours, theirs = rate(one), rate(other)
        if ours is not None and theirs is not None:
            say(f"{what}: {ours / theirs:.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure the HA port: Java, ours, raw.")
    parser.add_argument("--megabytes", type=int, default=512, help="length of the log")
    parser.add_argument("--only", choices=("java", "ours"), help="one half: by the master's kind")
    parser.add_argument("--seconds", type=int, default=6, help="of sends to a Java master, for each row")
    arguments = parser.parse_args()
    rows: list[Row] = []
    out = Path.cwd() / "out"
    out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix="bench-ha-") as name:
        directory = Path(name)
        source = directory / "source"
        store = ReplicaStore(source, FILE_BYTES)
        fill(store, arguments.megabytes << 20, BODY_BYTES)
        store.close()
        if arguments.only != "ours":
            rows += asyncio.run(with_java_master(source, directory / "java", arguments.seconds))
            shutil.rmtree(directory / "java")
        if arguments.only != "java":
            rows += asyncio.run(with_our_master(source, directory / "ours"))
    print_table(rows)


if __name__ == "__main__":
    main()
