"""RocketMQ's own message stores with their AutoSwitchHA service, led by a test.

They are masters and slaves to compare ours with.

One JVM holds as many stores as a test wants. A store does what it does inside a broker, on real
sockets and real files; what a broker's controller would tell it (be master of this epoch, be slave of
that one, this is the SyncStateSet) it is told by the test, so that every epoch and every set can be
had at will and within milliseconds.

The Java side is `java/HaStores.java`: one command a line, one answer a line.
"""

import asyncio
import contextlib
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from ha_sidecar.commitlog.store import ReplicaStore
from ha_sidecar.epoch import EpochList
from testkit.ha.peers import OurSlave
from testkit.processes.ports import free_port
from testkit.processes.process import ProcessFailedError
from testkit.products.replica import log_prefix_equal
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_programs import compile_java
from testkit.rocketmq.processes import java_command

_PROGRAM: Final = "HaStores"
_ANSWER_TIMEOUT_S: Final = 90.0
_WAIT_S: Final = 60.0
_POLL_S: Final = 0.02
_ANSWER: Final = "> "

DEFAULT_TIMES: Final[Mapping[str, str]] = {}
QUICK_TIMES: Final[Mapping[str, str]] = {"haSendHeartbeatInterval": "300", "slaveTimeout": "700"}
"""A slave acknowledges within 0.3 s where it would take 5 s, and a send is given up
after 0.7 s instead of 3 s."""


@dataclass(frozen=True, slots=True)
class JavaSlave:
    """A slave as its Java master sees it."""

    broker_id: int
    ack_offset: int
    is_learner: bool


@dataclass(frozen=True, slots=True)
class JavaStatus:
    """What a Java store says of itself.

    Attributes:
        messages: how many its consume queue holds.
        sync_state_set: as its own puts count it; while a change is under way, the union of old and new.
        local_set: without pending changes.
        reported: the sets that it asked its controller for, in order.
    """

    max_offset: int
    min_offset: int
    confirm_offset: int
    messages: int
    epochs: EpochList
    sync_state_set: tuple[int, ...]
    local_set: tuple[int, ...]
    reported: tuple[tuple[int, ...], ...]
    slaves: tuple[JavaSlave, ...]


class JavaStores:
    """A JVM of one release; a context manager that ends it."""

    def __init__(self, version: str, directory: Path) -> None:
        """Start it; everything is written below `directory`."""
        self.version: Final = version
        self._directory: Final = directory
        jar_directory, classes = asyncio.run(_program(version))
        command = java_command(jar_directory, _PROGRAM, home=directory / "home", log="WARN")
        place = command.index("-cp") + 1
        command[place] = f"{classes}:{command[place]}"
        self._log: Final = (directory / "stores.log").open("w")
        self._process: Final = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._answers: Final[queue.Queue[str]] = queue.Queue()
        self._reader: Final = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._count = 0
        self._next_answer()

    def open(
        self,
        directory: Path,
        broker_id: int,
        file_bytes: int,
        settings: Mapping[str, str] = QUICK_TIMES,
        *,
        port: int | None = None,
    ) -> "JavaStore":
        """Open the store there, with what it holds; `settings` are keys of MessageStoreConfig."""
        self._count += 1
        store = JavaStore(self, f"s{self._count}", directory, port or free_port())
        keys = {"haListenPort": str(store.port), "mappedFileSizeCommitLog": str(file_bytes), **settings}
        pairs = [f"{key}={value}" for key, value in keys.items()]
        self.ask("open", store.name, str(directory), str(broker_id), *pairs)
        return store

    def ask(self, *words: object) -> str:
        """Give a command and return its answer.

        Raises:
            ProcessFailedError: the store threw, or the JVM says nothing.
        """
        stdin = self._process.stdin
        if stdin is None:
            raise ProcessFailedError("no way to speak to the stores")
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        return self._next_answer()

    def point(self, own: EpochList, own_max: int, master: EpochList, master_max: int) -> int | None:
        """Return where the two logs part by RocketMQ's own epoch cache, None where it finds no point."""
        found = int(self.ask("point", _pairs(own), own_max, _pairs(master), master_max))
        return None if found < 0 else found

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Pause the JVM with all its stores for the block: its sockets stay open, without reads or writes."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the JVM as kill -9 does, with all its stores."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def __enter__(self) -> Self:
        """Go on with it running."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._log.close()

    def _read(self) -> None:
        if self._process.stdout is None:
            return
        for line in self._process.stdout:
            self._log.write(line)
            self._log.flush()
            if line.startswith(_ANSWER):
                self._answers.put(line.removeprefix(_ANSWER).rstrip("\n"))

    def _next_answer(self) -> str:
        try:
            answer = self._answers.get(timeout=_ANSWER_TIMEOUT_S)
        except queue.Empty:
            raise ProcessFailedError(f"the stores of RocketMQ {self.version} say nothing") from None
        if answer.startswith("error "):
            raise ProcessFailedError(answer)
        return answer


class JavaStore:
    """One open store.

    Attributes:
        name: what the JVM calls it.
        directory: its root.
        port: its HA port.
    """

    def __init__(self, stores: JavaStores, name: str, directory: Path, port: int) -> None:
        """Describe it; `JavaStores.open` opens it."""
        self._stores: Final = stores
        self.name: Final = name
        self.directory: Final = directory
        self.port: Final = port

    @property
    def address(self) -> tuple[str, int]:
        """Host and HA port."""
        return "127.0.0.1", self.port

    @property
    def log_directory(self) -> Path:
        """Where its log's files are."""
        return self.directory / "commitlog"

    def become_master(self, epoch: int) -> bool:
        """Change to master of this epoch, as an election makes a broker do; say whether it took it."""
        return self._stores.ask("master", self.name, epoch) == "true"

    def stay_master(self, epoch: int) -> bool:
        """Be master of a later epoch without having been anything else in between; connections stay."""
        return self._stores.ask("confirm", self.name, epoch) == "true"

    def become_slave(self, epoch: int, broker_id: int, port: int) -> bool:
        """Change to slave of the master at that HA port of loopback."""
        return self._stores.ask("slave", self.name, epoch, broker_id, f"127.0.0.1:{port}") == "true"

    def put(self, count: int, body_bytes: int = 100) -> dict[str, int]:
        """Put messages, one after another; return how often each status came."""
        answer = self._stores.ask("put", self.name, count, body_bytes)
        return {name: int(number) for name, _, number in (part.partition("=") for part in answer.split())}

    def fill(self, count: int, body_bytes: int = 100) -> int:
        """Put messages that must all be taken; return where the log then ends."""
        statuses = self.put(count, body_bytes)
        if statuses != {"PUT_OK": count}:
            raise ProcessFailedError(f"{count} messages were put with {statuses}")
        return self.status().max_offset

    def set_members(self, *ids: int) -> None:
        """Tell it its SyncStateSet, as its controller's answer does."""
        self._stores.ask("set", self.name, ",".join(map(str, ids)))

    def shrink(self) -> tuple[int, ...]:
        """Return the set that it would keep now: those who kept up."""
        return _ids(self._stores.ask("shrink", self.name))

    def status(self) -> JavaStatus:
        """Ask what it is like now."""
        answer = self._stores.ask("status", self.name)
        said = {key: value for key, _, value in (part.partition("=") for part in answer.split())}
        pairs = (pair.split(":") for pair in said["epochs"].split(",") if pair)
        slaves = (slave.split(":") for slave in said["slaves"].split(",") if slave)
        return JavaStatus(
            max_offset=int(said["max"]),
            min_offset=int(said["min"]),
            confirm_offset=int(said["confirm"]),
            messages=int(said["queue"]),
            epochs=EpochList.of(*((int(epoch), int(start)) for epoch, start in pairs)),
            sync_state_set=_ids(said["set"]),
            local_set=_ids(said["local"]),
            reported=tuple(_ids(ids) for ids in said["reported"].split(";") if ids),
            slaves=tuple(JavaSlave(int(a), int(b), c == "true") for a, b, c in slaves),
        )

    def wait(self, is_so: Callable[[JavaStatus], bool], timeout_s: float = _WAIT_S) -> JavaStatus:
        """Wait until its status is as wanted, and return it.

        Raises:
            TimeoutError: it is not in time; the text shows the last one.
        """
        deadline_s = time.monotonic() + timeout_s
        while not is_so(status := self.status()):
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{status} after {timeout_s} s")
            time.sleep(_POLL_S)
        return status

    def epoch_file(self) -> bytes:
        """Return the bytes of its epoch file."""
        return (self.directory / "epochFileCheckpoint").read_bytes()

    def close(self) -> None:
        """Shut it down in good order."""
        self._stores.ask("close", self.name)


def assert_same(ours: OurSlave, master: JavaStore, end_offset: int) -> None:
    """Wait for a log up to there at our slave, and hold it and its epoch file against the master's."""
    ours.wait(end_offset)
    assert_same_store(ours.store, master, end_offset)


def assert_same_store(store: ReplicaStore, master: JavaStore, end_offset: int) -> None:
    """Hold a log of ours up to there, and its epoch file, against the master's."""
    assert log_prefix_equal(store.log.layout.directory, master.log_directory, end_offset)
    assert (store.directory / "epochFileCheckpoint").read_bytes() == master.epoch_file()


async def _program(version: str) -> tuple[Path, Path]:
    jar_directory = await jars(version)
    return jar_directory, await compile_java(jar_directory, (_PROGRAM,))


def _pairs(epochs: EpochList) -> str:
    return ",".join(f"{entry.epoch}:{entry.start_offset}" for entry in epochs)


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)
