"""The canary's connection to the current master: one at a time, opened when needed.

Problem: an operation must not wait for another's misfortune, and a connection to a frozen host looks alive
for minutes. Shape: operations share one connection and one dial. A dial has its own time, whoever began it,
and each operation waits for it as long as it can; a connection that fails also fails its pending operations,
and the next operation opens another one. After a time-out the connection is retired, as Java's client does:
others under way on it may still get their answers, new ones dial. Never: a retry. The canary records the
first result of each operation.
"""

import asyncio

from controller_core.access.signing import Sign
from controller_core.channel import ConnectError, Connection, connect
from controller_core.remoting.host_port import split_host_port

DIAL_S_MAX = 1.0
RETIRED_S = 3.0
"""How long a retired connection stays for answers under way; longer than any operation's deadline."""


class Link:
    """A connection to one address, replaced when the address changes or the connection ends.

    Attributes:
        dialled: how many connections were made: a change says that the peer may have lost what it had.
    """

    def __init__(self, sign: Sign | None = None) -> None:
        """Start without a connection; with `sign`, requests are signed."""
        self.dialled = 0
        self._sign = sign
        self._address = ""
        self._connection: Connection | None = None
        self._dial: asyncio.Task[Connection] | None = None
        self._retired: set[Connection] = set()

    async def get(self, address: str, timeout_s: float) -> Connection:
        """Return an open connection to `address`.

        Raises:
            ConnectError: it was refused, or not made within `timeout_s`.
        """
        if address != self._address:
            self.retire()
            self._drop_dial()
            self._address = address
        if self._connection is not None and not self._connection.is_closed:
            return self._connection
        if self._dial is None or self._dial.done():
            self._dial = asyncio.create_task(self._connect(address))
            self._dial.add_done_callback(_note_failure)
        dial = self._dial
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(dial)
        except TimeoutError:
            raise ConnectError(f"{address} did not accept within {timeout_s} s") from None
        except asyncio.CancelledError:
            if dial.cancelled():
                raise ConnectError(f"{address} is not the master any more") from None
            raise

    def retire(self) -> None:
        """Use the present connection for nothing new."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed:
            self._retired.add(connection)
            connection.on_closed(lambda closed, _: self._retired.discard(closed))
            asyncio.get_running_loop().call_later(RETIRED_S, connection.abort)

    async def close(self) -> None:
        """End every connection and dial."""
        self.retire()
        self._drop_dial()
        for connection in list(self._retired):
            connection.abort()
            await connection.wait_closed()

    async def _connect(self, address: str) -> Connection:
        found = split_host_port(address)
        if found is None or not found[0]:
            raise ConnectError(f"{address!r} is not host:port")
        connection = await connect(*found, DIAL_S_MAX, sign=self._sign)
        self.dialled += 1
        self._connection = connection
        return connection

    def _drop_dial(self) -> None:
        dial, self._dial = self._dial, None
        if dial is not None:
            dial.cancel()


def _note_failure(dial: asyncio.Task[Connection]) -> None:
    """Look at a dial's failure, so that asyncio does not report one that every operation was too late for."""
    if not dial.cancelled():
        dial.exception()
