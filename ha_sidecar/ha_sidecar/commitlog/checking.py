"""Checks the records of a log while it is being written, in a process of its own.

Checking takes about as much CPU as receiving. In the process that receives, both would share one interpreter
and each byte would wait for both. A second process on another core checks at no cost to the first. It reads
spans from its standard input, one a line, and answers each with a line. It ends with its input, also if the
parent process was killed.

It only reads, and only the spans that it was given: bytes that are still being written are outside of them.

    -> FROM TO
    <- OFFSET KIND PROBLEM        as `check_span` returns them
"""

import contextlib
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from ha_sidecar.commitlog.layout import Layout
from ha_sidecar.commitlog.records import CheckedRecord, RecordKind
from ha_sidecar.commitlog.recovery import check_span

_END_TIMEOUT_S: Final = 5.0


class Checker:
    """The process, one span at a time; `close` ends it.

    Attributes:
        is_busy: a span was given and its verdict not taken yet.
        pid: of the process.
    """

    def __init__(self, layout: Layout) -> None:
        """Start the process; the log's directory need not be there yet."""
        self.is_busy = False
        self._socket, theirs = socket.socketpair()
        for end in (self._socket, theirs):
            # Why: with a default time-out of the interpreter the pair does not block, and the process ends at
            # its first read.
            end.setblocking(True)
        words = (sys.executable, "-m", __name__, str(layout.directory), str(layout.file_bytes))
        with theirs:
            # S603: the command is this interpreter.
            self._process: Final = subprocess.Popen(  # noqa: S603
                words, stdin=theirs.fileno(), stdout=theirs.fileno()
            )
        self.pid: Final = self._process.pid
        self._answers: Final = self._socket.makefile()

    def tell(self, from_offset: int, to_offset: int) -> None:
        """Have a span of the log checked, when no other is."""
        self.is_busy = True
        with contextlib.suppress(ConnectionError):  # the verdict says that the process is gone
            self._socket.sendall(f"{from_offset} {to_offset}\n".encode())

    def has_verdict(self) -> bool:
        """Say whether `verdict` would return at once."""
        return self.is_busy and bool(select.select([self._socket], [], [], 0)[0])

    def verdict(self) -> tuple[int, CheckedRecord]:
        """Wait for what `check_span` says of the span told last, and return it.

        Raises:
            OSError: the process ended, so what it could not read or check is unknown.
        """
        self.is_busy, answer = False, ""
        with contextlib.suppress(ConnectionError):
            answer = self._answers.readline()
        if not answer:
            raise OSError(f"the process that checks the log ended with status {self._process.wait()}")
        offset, kind, problem = answer.removesuffix("\n").split(" ", 2)
        return int(offset), CheckedRecord(RecordKind(kind), problem=problem)

    def close(self) -> None:
        """End the process."""
        self._answers.close()
        self._socket.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Answer until the input ends."""
    layout = Layout(Path(sys.argv[1]), int(sys.argv[2]))
    for line in sys.stdin:
        from_offset, to_offset = map(int, line.split())
        offset, record = check_span(layout, from_offset, to_offset)
        sys.stdout.write(f"{offset} {record.kind.value} {record.problem}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
