"""Questions to the kernel over netlink, whose messages pyroute2 encodes and decodes.

Messages arrive undecoded, so that a caller who looks for a few among thousands decodes only those.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from typing import Any, Final

from pyroute2.netlink import NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR

ANSWER_S: Final = 1.0
_ANSWER_BYTES: Final = 65_536
_RECEIVE_BUFFER_BYTES: Final = 4 * 1024 * 1024
_HEADER: Final = struct.Struct("=IHHI")
_HEADER_BYTES: Final = 16
_CODE: Final = struct.Struct("=i")


class Netlink:
    """One netlink socket; to be used by one thread at a time."""

    def __init__(self, protocol: int) -> None:
        """Open it; raise `OSError` if the kernel lacks the protocol."""
        self._socket: Final = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        self._sequence = 0
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        self._socket.settimeout(ANSWER_S)
        self._socket.bind((0, 0))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, request: Any, kind: int, flags: int) -> Iterator[bytes]:  # noqa: ANN401 - pyroute2 is untyped
        """Send a message of pyroute2; yield each message of the answer.

        Raises:
            OSError: the kernel refuses, with its error number, or does not answer.
        """
        self._sequence += 1
        request["header"]["type"] = kind
        request["header"]["flags"] = flags | NLM_F_REQUEST
        request["header"]["sequence_number"] = self._sequence
        request.encode()
        self._socket.send(request.data)
        while True:
            data = self._socket.recv(_ANSWER_BYTES)
            offset = 0
            while offset + _HEADER_BYTES <= len(data):
                length, answer, _, sequence = _HEADER.unpack_from(data, offset)
                message = data[offset : offset + length]
                offset += max(length + 3 & ~3, _HEADER_BYTES)
                if sequence != self._sequence:
                    continue
                if answer == NLMSG_DONE:
                    return
                if answer == NLMSG_ERROR:
                    code = -_CODE.unpack_from(message, _HEADER_BYTES)[0]
                    if code:
                        raise OSError(code, os.strerror(code))
                    return
                yield message
