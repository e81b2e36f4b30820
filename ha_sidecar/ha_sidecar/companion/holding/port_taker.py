"""A process that takes a dead broker's port, and what it reports: the companion's side of `taking_process`.

Never: takes the port of a living broker.
"""

import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from controller_core.channel.sockets import unbound_everywhere
from ha_sidecar.address import HostPort
from ha_sidecar.companion.holding import taking_process
from ha_sidecar.companion.holding.hold_port import BACKLOG
from ha_sidecar.companion.holding.taking_process import TAKEN

REPORT_BYTES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class TakerReport:
    """`CONNECTED`, `ENDED`, `LIVES` or `TAKEN`, and for how long at most the port was closed."""

    kind: str
    refused_ms_max: float = 0.0


class PortTaker:
    """The process, from its start to `close`; it takes the port once.

    Attributes:
        reports: readable when there is a report.
        listener: not blocking; listens once the port is `TAKEN`.
    """

    def __init__(self, broker: HostPort) -> None:
        """Start the process for a broker's remoting address; its port is taken on all addresses."""
        self.reports, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener: Final = unbound_everywhere()
        for end in (self.reports, theirs):
            # Why: with a default time-out of the interpreter the pair does not block.
            end.setblocking(True)
        self.listener.setblocking(False)
        number = self.listener.fileno()
        words = (broker[0], str(broker[1]), str(number), str(BACKLOG))
        with theirs:
            # S603: the command is this interpreter. Why a new session: Ctrl-C is for the companion, which
            # holds to the end what it holds.
            self._process: Final = subprocess.Popen(  # noqa: S603
                (sys.executable, "-I", "-S", taking_process.__file__, *words),
                stdin=theirs.fileno(),
                pass_fds=(number,),
                start_new_session=True,
            )

    def report(self) -> TakerReport:
        """Wait for the next report, and return it.

        Raises:
            OSError: the process has ended.
        """
        words = self.reports.recv(REPORT_BYTES_MAX).decode().split()
        if not words:
            raise OSError(f"the process that takes the port ended with status {self._process.wait()}")
        return TakerReport(words[0], float(words[1])) if words[0] == TAKEN else TakerReport(words[0])

    def close(self) -> None:
        """End the process, which keeps nothing, and free the port."""
        self.reports.close()
        self._process.kill()
        self._process.wait()
        self.listener.close()
