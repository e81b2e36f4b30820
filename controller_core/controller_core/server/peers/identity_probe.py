"""Asking another controller who it is, without becoming a peer of it: greeting out, reply in, closed.

For a node that wants to know whether there is a cluster already, and for a leader that is about to add a
node.
"""

import asyncio
import contextlib
import ssl
from typing import Final

from controller_core.server.peers.codec import (
    GREETING_BYTES_MAX,
    FrameReader,
    Greeting,
    GreetingReply,
    PeerProtocolError,
    decode_reply,
    encode_greeting,
)
from controller_core.server.peers.greeting_rules import Address

ANSWER_WITHIN_S: Final = 1.0


async def ask(
    where: Address, greeting: Greeting, client_ssl: ssl.SSLContext | None = None
) -> GreetingReply | None:
    """Return the reply to a greeting; None without a reply in time."""
    try:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            name = where[0] if client_ssl else None
            reader, writer = await asyncio.open_connection(*where, ssl=client_ssl, server_hostname=name)
            try:
                writer.write(encode_greeting(greeting))
                return await _read_reply(reader)
            finally:
                writer.transport.abort()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, PeerProtocolError):
        return None


async def _read_reply(reader: asyncio.StreamReader) -> GreetingReply | None:
    frames = FrameReader(GREETING_BYTES_MAX)
    while data := await reader.read(GREETING_BYTES_MAX):
        if found := frames.feed(data):
            return decode_reply(found[0])
    return None
