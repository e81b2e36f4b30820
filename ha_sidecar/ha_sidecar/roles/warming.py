"""Have a slave's broker load what it will need as a master, before a failover waits for it.

A JVM loads a class when it is first used, and a slave has never served its log: when it becomes master and the other
members come, it makes its first HA connection. On a machine whose processors were busy with the same failover that took
0.7 s, of the 1.1 s that nobody could send (5.5.0).

So the companion greets the broker's HA port once after each of its starts, as a learner that nobody counts, and leaves when
the greeting is answered. A learner without an id never enters a SyncStateSet, and a slave's set is not its own to change.

Never: a broker that is master; there each connection counts for something.

Source: AutoSwitchHAConnection.java, AutoSwitchHAService.removeConnection 5.4.0.
"""

import asyncio
import contextlib
import logging
from typing import Final

from ha_sidecar.roles.config import HostPort
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.slave import NOBODY_ID

WITHIN_S: Final = 5.0
_log = logging.getLogger(__name__)


async def warm(ha_address: HostPort) -> bool:
    """Greet the HA port and wait for its answer; say whether it came. Never raises for what the network does."""
    try:
        async with asyncio.timeout(WITHIN_S):
            reader, writer = await asyncio.open_connection(*ha_address)
            with contextlib.closing(writer):
                writer.write(codec.encode_handshake(codec.Handshake(NOBODY_ID, async_learner=True)))
                await reader.readexactly(codec.REPLY_HEADER_BYTES)
    except (TimeoutError, OSError, EOFError) as error:
        _log.debug("the HA port %s:%d did not answer: %s", *ha_address, error)
        return False
    return True
