"""Asking another controller who it is, without becoming a peer of it: greeting out, reply in, closed.

For a node that wants to know whether there is a cluster already, and for a leader that is about to add a node.
"""

import asyncio
import contextlib
import ssl
from typing import Final

from controller_core.server.peers.codec import (
    GREETING_MAX_BYTES,
    FrameReader,
    Greeting,
    PeerProtocolError,
    Reply,
    decode_reply,
    encode_greeting,
)
from controller_core.server.peers.greeting_rules import Address

ANSWER_WITHIN_S: Final = 1.0


async def ask(where: Address, greeting: Greeting, client_ssl: ssl.SSLContext | None = None) -> Reply | None:
    """Return the reply to a greeting; None if nobody gives one in time."""
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


async def _read_reply(reader: asyncio.StreamReader) -> Reply | None:
    frames = FrameReader(GREETING_MAX_BYTES)
    while data := await reader.read(GREETING_MAX_BYTES):
        if found := frames.feed(data):
            return decode_reply(found[0])
    return None
