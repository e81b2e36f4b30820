"""Both sides of an HA connection written by hand, step by step on a test's own thread.

They say what a test wants said, and may do what no peer of ours would.
"""

import contextlib
import socket
from typing import Final, Self

from controller_core.remoting.numbers import LogOffset
from ha_sidecar.epoch import EpochList
from ha_sidecar.transfer import codec
from ha_sidecar.transfer.codec import FrameHeader, Handshake, HandshakeReply

WAIT_S: Final = 30.0


class PeerClosedError(Exception):
    """The peer ended the connection where more was awaited."""


class HandMaster:
    """A listening socket that speaks the master's side, step by step, on the test's thread."""

    def __init__(self, file_bytes: int) -> None:
        """Listen on a free port of loopback."""
        self._file_bytes: Final = file_bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WAIT_S)
        self.address: tuple[str, int] = self._listener.getsockname()
        self.port: Final = self.address[1]
        self.peer = socket.socket()

    def accept(self) -> codec.Handshake | codec.LegacyHandshake:
        """Take the slave's connection and its handshake."""
        found = codec.decode_handshake(self.accept_bytes())
        if found is None:
            raise AssertionError("no whole handshake")
        return found[0]

    def accept_bytes(self, pieces: int | None = None) -> bytes:
        """Take the slave's connection and handshake bytes; with `pieces`, the bytes of so many reads."""
        self.peer.close()
        self.peer, _ = self._listener.accept()
        self.peer.settimeout(WAIT_S)
        if pieces is not None:
            return b"".join(self.peer.recv(2 * codec.HANDSHAKE_BYTES) for _ in range(pieces))
        return self.read(codec.HANDSHAKE_BYTES)

    def reply(self, max_offset: int, *epochs: tuple[int, int]) -> None:
        """Answer the handshake."""
        self.peer.sendall(codec.encode_reply(HandshakeReply(LogOffset(max_offset), EpochList.of(*epochs))))

    def send_log(self, log: bytes, start_offset: int, epoch: int, batch_bytes: int = 333) -> None:
        """Send log bytes in small batches, none across a file's end."""
        at = 0
        while at < len(log):
            offset = start_offset + at
            length = min(batch_bytes, len(log) - at, self._file_bytes - offset % self._file_bytes)
            self.send_frame(log[at : at + length], offset, epoch)
            at += length

    def send_frame(self, body: bytes, offset: int, epoch: int) -> None:
        """Send one frame, whatever its body, of an epoch that starts at 0."""
        header = FrameHeader(len(body), LogOffset(offset), epoch, LogOffset(0), LogOffset(offset))
        self.peer.sendall(codec.encode_frame_header(header) + body)

    def ack(self) -> int:
        """Return the next ack."""
        return codec.decode_ack(self.read(codec.ACK_BYTES))

    def ack_of(self, offset: int) -> None:
        """Read acks until one says `offset`; they never go back."""
        last = -1
        while last != offset:
            now = self.ack()
            if not last <= now <= offset:
                raise AssertionError(f"ack of {now} after {last}, waiting for {offset}")
            last = now

    def read(self, length: int) -> bytes:
        """Return so many bytes of the slave's."""
        return _read(self.peer, length)

    def wait_closed(self) -> None:
        """Read and forget until the slave ends the connection."""
        _wait_closed(self.peer)

    def close(self) -> None:
        """Close everything."""
        self.peer.close()
        self._listener.close()

    def __enter__(self) -> Self:
        """Go on listening."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close everything."""
        self.close()


class HandSlave:
    """A connection to an HA port, led byte by byte."""

    def __init__(self, port: int, receive_buffer_bytes: int | None = None) -> None:
        """Connect; a small buffer makes it a slave that is slow to read from its master."""
        self.peer: Final = socket.socket()
        self.peer.settimeout(WAIT_S)
        if receive_buffer_bytes is not None:
            self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.peer.connect(("127.0.0.1", port))
        self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.peer.sendall(data)

    def shake_hands(self, handshake: Handshake) -> HandshakeReply:
        """Say who it is and return the reply."""
        self.send(codec.encode_handshake(handshake))
        head = self.read(codec.REPLY_HEADER_BYTES)
        rest_bytes = codec.reply_bytes(head) - codec.REPLY_HEADER_BYTES
        return codec.decode_reply(head + self.read(rest_bytes))

    def ack(self, offset: int) -> None:
        """Acknowledge."""
        self.send(codec.encode_ack(LogOffset(offset)))

    def frame(self) -> tuple[FrameHeader, bytes]:
        """Return the next frame."""
        header = codec.decode_frame_header(self.read(codec.FRAME_HEADER_BYTES))
        return header, self.read(header.body_bytes)

    def frames_to(self, offset: int) -> list[FrameHeader]:
        """Read until the log reaches `offset`, acknowledging; return all headers."""
        found: list[FrameHeader] = []
        end_offset = -1
        while end_offset < offset:
            header, _ = self.frame()
            found.append(header)
            end_offset = header.offset + header.body_bytes
            self.ack(end_offset)
        return found

    def read(self, length: int) -> bytes:
        """Return so many bytes of the master's."""
        return _read(self.peer, length)

    def wait_closed(self) -> bytes:
        """Return what still comes until the master ends the connection."""
        return _wait_closed(self.peer)

    def __enter__(self) -> Self:
        """Go on connected."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.peer.close()


def _read(peer: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        try:
            part = peer.recv(length - len(data))
        except ConnectionError:
            part = b""
        if not part:
            raise PeerClosedError(f"after {data.hex()}")
        data += part
    return data


def _wait_closed(peer: socket.socket) -> bytes:
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := peer.recv(65_536):
            data += part
    return data
