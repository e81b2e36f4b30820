"""Brokers whose companions have a fence.

Tests ask whether the fence is closed, and what the broker says.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from controller_core.broker_settings import MIN_IN_SYNC
from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode
from ha_sidecar.address import host_port
from testkit.products.companion import BrokerCompanion
from testkit.rocketmq.processes import JavaBroker
from testkit.rocketmq.witness import Witness

FENCE_AFTER_S = 3.0
_ANSWERED_WITHIN_S = 60.0
_POLL_S = 0.05


class FencedBroker:
    """A broker's companion with a fence, and its witness; somebody else starts and stops the broker.

    Attributes:
        companion: its process.
    """

    def __init__(
        self, broker: JavaBroker, controllers: Sequence[str], topic: str, first_sequence: int, **given: str
    ) -> None:
        """Describe both; `given` are further settings of the companion."""
        self.broker = broker
        own = {"fence": "true", "fence-after-ms": str(int(FENCE_AFTER_S * 1000)), **given}
        self._companion = BrokerCompanion(broker, controllers, **own)
        self.companion = self._companion.process
        directory = broker.place.directory
        self.witness = Witness(broker.address, broker.place.group, topic, first_sequence, directory)

    async def wait_fence(self, closed: int, timeout_s: float = 60.0) -> None:
        """Wait until the companion's metrics say so; 1 is closed."""
        await self._companion.wait_metric("fenced", closed, timeout_s)

    async def fence_changes(self) -> list[dict[str, Any]]:
        """Return the companion's events of its fence, in order."""
        return await self._companion.events("FenceChanged")

    async def setting(self) -> int:
        """Return the broker's minInSyncReplicas; a JVM's first answers may take longer than an ask waits."""
        asker = Asker(host_port(self.broker.address))
        text = ""
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                while not text:
                    with contextlib.suppress(AskError):
                        text = (await asker.ask(RequestCode.GET_BROKER_CONFIG)).body.decode()
                    await asyncio.sleep(_POLL_S)
        finally:
            asker.close()
        line = next(line for line in text.splitlines() if line.startswith(f"{MIN_IN_SYNC}="))
        return int(line.partition("=")[2])

    async def wait_setting(self, value: int) -> None:
        """Wait until the broker's minInSyncReplicas is this.

        A machine that stands still for long closes a fence, too.
        """
        async with asyncio.timeout(_ANSWERED_WITHIN_S):
            while await self.setting() != value:  # noqa: ASYNC110 - without a notification
                await asyncio.sleep(_POLL_S)

    async def permit(self, permission: int) -> None:
        """Set the broker's brokerPermission: 6 reads and writes, 4 reads."""
        asker = Asker(host_port(self.broker.address))
        body = f"brokerPermission={permission}\n".encode()
        try:
            async with asyncio.timeout(_ANSWERED_WITHIN_S):
                while True:
                    with contextlib.suppress(AskError):
                        await asker.ask(RequestCode.UPDATE_BROKER_CONFIG, body=body)
                        return
                    await asyncio.sleep(_POLL_S)
        finally:
            asker.close()

    def told(self) -> str:
        """Say in a line what the witness saw."""
        acks = self.witness.acknowledged()
        period = f"{acks[0].end_ns} to {acks[-1].end_ns}" if acks else "never"
        return (
            f"{self.broker.place.name}: {len(acks)} of {len(self.witness.sends())} acknowledged, {period}; "
            f"master in epochs {sorted(self.witness.epochs_as_master())}"
        )


@contextlib.asynccontextmanager
async def watched(sides: Sequence[FencedBroker]) -> AsyncIterator[None]:
    """Run companions and witnesses; the witnesses are ended first."""
    try:
        for side in sides:
            await side.companion.start()
            await side.wait_fence(0)
            await side.witness.process.start()
        yield
    finally:
        await asyncio.gather(*(side.witness.process.stop() for side in sides))
        await asyncio.gather(*(side.companion.stop() for side in sides))
