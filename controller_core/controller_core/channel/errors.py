"""How a call over a connection can fail without any fault in the protocol."""


class ChannelError(Exception):
    """A call, or an attempt to connect, did not come to an answer."""


class ConnectError(ChannelError):
    """No connection came about: refused, unreachable, unresolved or too slow."""


class PortClosedError(ConnectError):
    """The host answered that the port is closed."""


class ConnectionClosedError(ChannelError):
    """The connection ended before the answer came; the peer may or may not have acted on the request."""


class CallTimeoutError(ChannelError):
    """No answer came in time.

    The peer may or may not have acted on the request, the connection stays open.
    """


class DisplacedError(ChannelError):
    """The connection gave its place to a younger one, because its source or its port had too many."""
