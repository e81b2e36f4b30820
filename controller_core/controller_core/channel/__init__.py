"""Remoting over TCP, for asyncio: the shell around the frame codec, the same at both ends of a connection."""

from controller_core.channel.connection import Connection, RequestHandler
from controller_core.channel.endpoints import Server, connect, serve
from controller_core.channel.errors import CallTimeoutError, ChannelError, ConnectError, ConnectionClosedError

__all__ = [
    "CallTimeoutError",
    "ChannelError",
    "ConnectError",
    "Connection",
    "ConnectionClosedError",
    "RequestHandler",
    "Server",
    "connect",
    "serve",
]
