"""The two ways the HA protocol can go wrong: rubbish from a peer, and misuse by us.

`HaProtocolError` ends one connection and nothing else; the process reconnects. `TransferUsageError` is a bug
of this program. Nothing else is raised by this package, whatever bytes come in.
"""


class HaProtocolError(Exception):
    """A peer's bytes break the HA protocol; the connection has to be closed.

    Attributes:
        stream_offset: position in the connection's byte stream at which the broken message starts.
        length_bytes: length of the part that was understood to be broken.
    """

    def __init__(self, problem: str, stream_offset: int, length_bytes: int) -> None:
        super().__init__(f"{problem} ({length_bytes} bytes at stream offset {stream_offset})")
        self.stream_offset = stream_offset
        self.length_bytes = length_bytes


class TransferUsageError(Exception):
    """This program called a transfer machine in a way its states do not allow."""
