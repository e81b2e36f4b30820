"""Has a master replaced that stands still, before it is killed: its clients go to the next one in one step.

    the broker's preStop stops the process (SIGSTOP)   nothing is acknowledged any more; the kernel still takes connections and
                                                       what is sent over them, so that nobody is refused
    goodbye                                            a heartbeat in the broker's name over a connection of our own, which is
                                                       closed then: the controllers hold it for dead, and elect
    settled                                            a master that acknowledges answers where the clients would come to
    the preStop kills the process                      their connections end, and the next one they make leads to the master

Why not kill it at once: its port refuses connections then until the companion has taken it (`holding`). That takes a millisecond
where there is processor time to be had; on two busy processors it took 100, and a client's three tries were over by then.

Why a heartbeat: to this project's controllers a broker lives by the connection that its newest heartbeat came by, and the end of
that one is its death. RocketMQ's own keep the connection that was first: nobody is elected in time then, and the broker is killed
as it would have been without this.

Never: for a broker that may go on. What was elected here stands.

Source: controller.md, "Broker heartbeat"; DefaultBrokerHeartbeatManager.onBrokerHeartbeat 5.5.0.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from controller_core.channel.asking import Asker, AskError
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.headers import BrokerHeartbeatRequestHeader
from ha_sidecar.roles.companion_facts import BrokerFacts
from ha_sidecar.roles.config import HostPort
from ha_sidecar.roles.holding import settled_before

ELECTED_WITHIN_S: Final = 0.7
SETTLED_WITHIN_S: Final = 1.5
"""With the rest of a send's way well below the 3 s after which a client gives it up."""

_log = logging.getLogger(__name__)


def goodbye(cluster: str, group: str, broker: BrokerFacts) -> BrokerHeartbeatRequestHeader:
    """Return the broker's last heartbeat (904)."""
    return BrokerHeartbeatRequestHeader(
        cluster_name=cluster,
        broker_addr=broker.address,
        broker_name=group,
        broker_id=broker.broker_id,
        epoch=broker.last_epoch,
        max_offset=broker.max_offset,
        confirm_offset=broker.confirm_offset,
    )


async def replaced(
    controllers: Sequence[HostPort],
    heartbeat: BrokerHeartbeatRequestHeader,
    is_elected: Callable[[], Awaitable[bool]],
    is_settled: Callable[[], Awaitable[bool]],
) -> bool:
    """Tell the controllers that the broker is gone, and wait until its clients would be served where they come to.

    Args:
        controllers: all of them; each keeps a table of its own of who lives.
        heartbeat: what the broker would say of itself.
        is_elected: asks whether another is master.
        is_settled: asks whether that one acknowledges, and answers at the old one's address.

    Returns:
        Whether it came to that in time; if not, the broker is to be killed all the same.
    """
    telling = [asyncio.ensure_future(_tell(address, heartbeat)) for address in controllers]
    try:
        elected = await _within(ELECTED_WITHIN_S, is_elected)
        return elected and await _within(SETTLED_WITHIN_S, is_settled)
    finally:
        for task in telling:
            task.cancel()
        await asyncio.gather(*telling, return_exceptions=True)


async def _tell(controller: HostPort, heartbeat: BrokerHeartbeatRequestHeader) -> None:
    asker = Asker(controller)
    try:
        # Answered, and so taken up, before its connection ends.
        await asker.ask(RequestCode.BROKER_HEARTBEAT, heartbeat)
    except AskError as error:
        _log.info("controller %s:%d was not told that the broker is gone: %s", *controller, error)
    finally:
        asker.close()


async def _within(time_s: float, asks: Callable[[], Awaitable[bool]]) -> bool:
    ended = asyncio.Event()
    timer = asyncio.get_running_loop().call_later(time_s, ended.set)
    try:
        return await settled_before(asks, ended)
    finally:
        timer.cancel()
