"""`python -m testkit.fakes CONTROLLERS GROUP`: a broker in a process of its own.

It becomes master of a group, takes the second member into its SyncStateSet, says so, and sends heartbeats.
"""

import asyncio
import sys

from controller_core.channel.errors import ChannelError
from controller_core.remoting.codes import ResponseCode
from testkit.fakes.broker import FakeBroker

HEARTBEAT_S = 0.3
TIMEOUT_MS = 5_000
"""Longer than in use, so that pauses of a busy machine do not reach it."""


async def main(controllers: list[str], group: str) -> None:
    """Run until the process ends."""
    broker = FakeBroker(controllers, group, beat_interval_s=HEARTBEAT_S, timeout_ms=TIMEOUT_MS)
    await broker.start()
    await broker.elect()
    broker.epoch = 1
    sys.stdout.write("is master\n")
    sys.stdout.flush()
    while True:
        try:
            if (await broker.alter((1, 2), set_epoch=1)).code == ResponseCode.SUCCESS:
                break
        except ChannelError:
            await broker.dial()
        await asyncio.sleep(0.1)
    sys.stdout.write("is whole\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1].split(","), sys.argv[2]))
