"""RocketMQ's own Java producer and consumer as a load and its checker.

An application's view of a failover is a Java client on its defaults: how long no send was acknowledged, and
whether every acknowledged message can be read afterwards. `LoadClient` runs the producer, which writes a
ledger of every send; `read_back` reads the topic with the Java consumer and compares keys with the ledger.
"""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testkit.processes.process import ManagedProcess, ProcessFailedError
from testkit.rocketmq.java_programs import compile_java, with_class_path
from testkit.rocketmq.processes import java_command

_START_TIMEOUT_S = 150.0
_STOP_TIMEOUT_S = 60.0
_READ_TIMEOUT_S = 180.0
_NS_PER_S = 1_000_000_000

ACKNOWLEDGED = "SEND_OK"
"""The only send status that promises the message; FLUSH_SLAVE_TIMEOUT and the like are ambiguous."""


@dataclass(frozen=True, slots=True)
class Send:
    """One line of the ledger.

    Times are UTC nanoseconds of the client's one clock; `problem` is its exception's text.
    """

    sequence: int
    key: str
    start_ns: int
    end_ns: int
    status: str
    broker: str | None
    queue: int | None
    offset: int | None
    problem: str = ""

    @property
    def acknowledged(self) -> bool:
        """Whether the broker promised to keep the message."""
        return self.status == ACKNOWLEDGED


@dataclass(frozen=True, slots=True)
class LoadStats:
    """What a ledger says in numbers.

    Attributes:
        acknowledged: sends answered SEND_OK.
        failed: all other sends, after the client's own retries.
        statuses: count of each status that is not SEND_OK.
        longest_gap_s: longest time between two acknowledgements that follow each other.
        gap_start_ns: end of the last acknowledgement before that gap, None without two acknowledgements.
    """

    acknowledged: int
    failed: int
    statuses: dict[str, int]
    longest_gap_s: float
    gap_start_ns: int | None


@dataclass(frozen=True, slots=True)
class ReadBackResult:
    """The ledger held against everything the topic holds, by key.

    Attributes:
        acknowledged: keys the client was promised.
        read: messages read, duplicates included.
        lost: promised keys that were not read.
        duplicates: keys read more than once (a client's retry after a lost answer
            makes them; none is a loss).
        unexpected: keys read that the ledger does not hold at all.
    """

    acknowledged: int
    read: int
    lost: frozenset[str]
    duplicates: frozenset[str]
    unexpected: frozenset[str]


def read_ledger(path: Path) -> list[Send]:
    """Return the sends of a ledger, in the order they ended; a torn last line (killed client) is left out."""
    return [_send(line) for line in json_lines(path)]


def _send(line: dict[str, Any]) -> Send:
    return Send(
        sequence=line["seq"],
        key=line["key"],
        start_ns=line["start_ns"],
        end_ns=line["end_ns"],
        status=line["status"],
        broker=line.get("broker"),
        queue=line.get("queue"),
        offset=line.get("offset"),
        problem=line.get("problem", ""),
    )


def summarise(sends: list[Send]) -> LoadStats:
    """Count the sends of a ledger and find the longest gap between acknowledgements."""
    ends = sorted(send.end_ns for send in sends if send.acknowledged)
    gaps = ((later - earlier, earlier) for earlier, later in itertools.pairwise(ends))
    longest_ns, gap_start_ns = max(gaps, default=(0, None))
    statuses = Counter(send.status for send in sends if not send.acknowledged)
    return LoadStats(
        acknowledged=len(ends),
        failed=len(sends) - len(ends),
        statuses=dict(statuses),
        longest_gap_s=longest_ns / _NS_PER_S,
        gap_start_ns=gap_start_ns,
    )


def longest_gap_since_s(sends: list[Send], since_ns: int) -> float:
    """Return the longest time between two acknowledgements, the later of which came after `since_ns`."""
    from_ns = max((s.end_ns for s in sends if s.acknowledged and s.end_ns <= since_ns), default=since_ns)
    return summarise([send for send in sends if send.end_ns >= from_ns]).longest_gap_s


def first_acknowledged_after(sends: list[Send], time_ns: int) -> Send | None:
    """Return the acknowledged send that *started* after `time_ns` (UTC) and ended first, or None."""
    later = [one for one in sends if one.acknowledged and one.start_ns > time_ns]
    return min(later, key=lambda send: send.end_ns, default=None)


def compare(sends: list[Send], keys_read: list[str]) -> ReadBackResult:
    """Hold a ledger against the keys read from the topic."""
    counts = Counter(keys_read)
    promised = {send.key for send in sends if send.acknowledged}
    sent = {send.key for send in sends}
    return ReadBackResult(
        acknowledged=len(promised),
        read=len(keys_read),
        lost=frozenset(promised - counts.keys()),
        duplicates=frozenset(key for key, count in counts.items() if count > 1),
        unexpected=frozenset(counts.keys() - sent),
    )


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """How the Java producer runs; zero means the client's own default.

    Attributes:
        threads: senders, each waiting for its answer.
        rate: sends per second over all threads; 0 is as fast as answers come.
        payload_bytes: size of a body.
        poll_name_server_ms: how often the client asks for routes (its default is 30,000).
        send_timeout_ms: the client's time for one send (its default is 3,000).
        duration_s: ends by itself after this; 0 runs until `stop`.
        waits: whether sends wait until they are stored as the broker's settings say (waitStoreMsgOK).
        user: name and password for access control, None without.
        jvm: further options of the JVM.
    """

    threads: int = 4
    rate: int = 0
    payload_bytes: int = 128
    poll_name_server_ms: int = 0
    send_timeout_ms: int = 0
    duration_s: int = 0
    waits: bool = True
    user: tuple[str, str] | None = None
    jvm: tuple[str, ...] = ()

    def arguments(self) -> list[str]:
        """Return the Java program's options."""
        return [
            *self.pace(),
            *("--poll-name-server-ms", str(self.poll_name_server_ms)),
            *("--send-timeout-ms", str(self.send_timeout_ms)),
            *("--duration-s", str(self.duration_s)),
            *("--wait-store-ok", str(self.waits).lower()),
            *signing_options(self.user),
        ]

    def pace(self) -> list[str]:
        """Return the options that each client's program has: how many senders, how often, how large."""
        return [
            *("--threads", str(self.threads)),
            *("--rate", str(self.rate)),
            *("--payload-bytes", str(self.payload_bytes)),
        ]


def signing_options(user: tuple[str, str] | None) -> list[str]:
    """Return the options with which our Java programs sign their requests; none without a user."""
    return [] if user is None else ["--access-key", user[0], "--secret-key", user[1]]


class LoadClient:
    """An unmodified Java producer that sends until a stop; a context manager, or `start` and `stop`.

    Attributes:
        ledger: file with one JSON object a send.
        process: the Java process, for signals and its log.
    """

    def __init__(
        self,
        jars: Path,
        name_server: str,
        topic: str,
        directory: Path,
        settings: LoadSettings | None = None,
        *,
        entering: Sequence[str] = (),
    ) -> None:
        """Describe the client; nothing runs before `start`.

        Args:
            jars: folder of one release's jars (`testkit.rocketmq.jars.jars`); the client is of that release.
            name_server: host:port, or several with `;` between.
            topic: made by the broker on the first send if it may (autoCreateTopicEnable).
            directory: receives ledger.jsonl and load.log.
            settings: None for the defaults.
            entering: words before the command, for instance those that enter a network namespace.
        """
        self._jars = jars
        self._entering = entering
        self._directory = directory
        self.name_server = name_server
        self.topic = topic
        self.ledger = directory / "ledger.jsonl"
        self._arguments = [
            *("--name-server", name_server, "--topic", topic, "--ledger", str(self.ledger)),
            *(settings or LoadSettings()).arguments(),
        ]
        self._jvm = (settings or LoadSettings()).jvm
        self._sends: list[Send] = []
        self._read_bytes = 0
        self.process = ManagedProcess("load client", ["java"], directory / "load.log")

    async def start(self) -> None:
        """Compile if needed, start, and wait until the producer runs (its first send may still be open)."""
        self.process.command = [*self._entering, *await self.command()]
        self._sends, self._read_bytes = [], 0
        await self.process.start()
        await self.process.wait_for_text('"started":true', _START_TIMEOUT_S)

    async def command(self) -> list[str]:
        """Return the command of the Java program, which is compiled if needed."""
        classes = await compile_java(self._jars)
        command = java_command(
            self._jars, "LoadClient", *self._arguments, home=self._directory / "home", log="OFF"
        )
        return with_class_path([command[0], *self._jvm, *command[1:]], classes)

    async def stop(self) -> LoadStats:
        """Let the sends under way end, flush the ledger, end the process and return the numbers.

        Raises:
            ProcessFailedError: the client had to be killed, so its ledger may lack its last sends.
        """
        status = await self.process.stop(_STOP_TIMEOUT_S)
        # A JVM that ends by SIGTERM in good order says 143; by its own duration 0.
        if status not in {0, 143}:
            raise ProcessFailedError(f"load client ended with {status}:\n{self.process.tail()}")
        return self.stats()

    def sends(self) -> list[Send]:
        """Return what the ledger holds now; read only the part added since the last call."""
        if self.ledger.exists():
            with self.ledger.open("rb") as ledger:
                ledger.seek(self._read_bytes)
                # One read, cut at its last line end: read line by line, the end of a line that was half
                # written would come as a line of its own.
                lines = ledger.read().rpartition(b"\n")[0]
            self._sends.extend(_send(json.loads(line)) for line in lines.splitlines())
            self._read_bytes += len(lines) + 1 if lines else 0
        return list(self._sends)

    def stats(self) -> LoadStats:
        """Return the numbers of the ledger so far."""
        return summarise(self.sends())

    async def wait_for_acknowledged(
        self, count: int, timeout_s: float = 30.0, *, after_ns: int = 0
    ) -> LoadStats:
        """Wait until `count` sends that started after `after_ns` (UTC) were acknowledged.

        Raises:
            ProcessFailedError: the client ended, or the time is over.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            sends = self.sends()
            # They are in the order in which they ended: before the last that ended by then, none began later.
            later = itertools.takewhile(lambda send: send.end_ns > after_ns, reversed(sends))
            if sum(send.acknowledged and send.start_ns > after_ns for send in later) >= count:
                return summarise(sends)
            if not self.process.running or asyncio.get_running_loop().time() > deadline:
                raise ProcessFailedError(
                    f"{count} sends were not acknowledged in {timeout_s} s:\n{self.process.tail()}"
                )
            await asyncio.sleep(0.05)

    async def __aenter__(self) -> Self:
        """Start it."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, whatever happened."""
        await self.process.stop(_STOP_TIMEOUT_S)


async def read_back(
    jars: Path,
    name_server: str,
    topic: str,
    sends: list[Send],
    directory: Path,
    user: tuple[str, str] | None = None,
    *,
    entering: Sequence[str] = (),
) -> ReadBackResult:
    """Read the whole topic with the Java consumer and compare it with a ledger's sends.

    Call it when no load runs: messages sent while it reads are beyond the end it
    looked up and would count as lost. `entering` are words before the command, as of `LoadClient`.

    Raises:
        ProcessFailedError: the consumer could not read every queue to its end.
    """
    keys_path = directory / "keys.jsonl"
    command = java_command(
        jars,
        "ReadBack",
        *("--name-server", name_server, "--topic", topic, "--output", str(keys_path)),
        *signing_options(user),
        home=directory / "home",
        log="OFF",
    )
    command = [*entering, *with_class_path(command, await compile_java(jars))]
    process = ManagedProcess("read back", command, directory / "read_back.log")
    async with process:
        status = await process.wait(_READ_TIMEOUT_S)
    if status != 0:
        raise ProcessFailedError(f"read back ended with {status}:\n{process.tail()}")
    return compare(sends, [line["key"] for line in json_lines(keys_path)])


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Read the whole lines of a file that somebody may be writing to."""
    yield from (json.loads(line) for line in path.read_text("ascii").rpartition("\n")[0].splitlines())
