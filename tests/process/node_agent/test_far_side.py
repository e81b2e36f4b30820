"""The wire of a far side: packets pass both ways until it is cut, and neither way while it is."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from testkit.processes.far_side import FarSide, far_side, lacking
from testkit.processes.ports import free_port
from testkit.processes.process import ManagedProcess

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(60),
    pytest.mark.skipif(bool(lacking()), reason=lacking() or "-"),
]

QUIET_S = 1.0
WITHIN_S = 20.0
TALKER = """
import socket, sys, time
near, far = (sys.argv[1], int(sys.argv[2])), (sys.argv[3], int(sys.argv[2]))
talker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
talker.bind(far)
talker.setblocking(False)
while True:
    talker.sendto(b"from far", near)
    try:
        print(talker.recv(99).decode(), flush=True)
    except BlockingIOError:
        pass
    time.sleep(0.02)
"""


class _Near:
    """The near end: what arrived from the far side lately, and what the far side says has arrived there."""

    def __init__(self, side: FarSide, port: int, log: Path) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((side.near_host, port))
        self.socket.setblocking(False)
        self._far = (side.far_host, port)
        self._log = log

    async def arrivals(self, lasting_s: float) -> tuple[int, int]:
        """Send for a while; return how many packets arrived here, and how many on the far side."""
        before = self._log.read_text().count("from near")
        ends = asyncio.get_running_loop().time() + lasting_s
        here = 0
        while asyncio.get_running_loop().time() < ends:
            self.socket.sendto(b"from near", self._far)
            try:
                here += bool(self.socket.recv(99))
            except BlockingIOError:
                await asyncio.sleep(0.02)
        return here, self._log.read_text().count("from near") - before

    async def until_both_arrive(self) -> None:
        """Wait until packets pass both ways."""
        async with asyncio.timeout(WITHIN_S):
            while not all(await self.arrivals(0.1)):
                pass


async def test_a_cut_wire_lets_no_packet_pass_either_way_and_a_healed_one_lets_them(tmp_path: Path) -> None:
    async with far_side() as side:
        port, log = free_port(), tmp_path / "talker.log"
        command = [sys.executable, "-c", TALKER, side.near_host, str(port), side.far_host]
        talker = side.take(ManagedProcess("talker", command, log))
        await talker.start()
        try:
            near = _Near(side, port, log)
            with near.socket:
                await near.until_both_arrive()
                await side.cut()
                await near.arrivals(0.1)  # what was on its way
                assert await near.arrivals(QUIET_S) == (0, 0)
                await side.heal()
                await near.until_both_arrive()
        finally:
            await talker.stop()
