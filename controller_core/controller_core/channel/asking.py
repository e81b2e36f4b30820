"""One lasting connection to a broker or name server, to ask it one thing after another.

Asked every second for years, so it dials once; a connection that broke is dialled again at the next question.
Every failure is an `AskError`; one with a code is a refusal: the peer is alive, and said why (`refusals`).
"""

from typing import Final

from controller_core.access.signing import Sign
from controller_core.channel.connection import Connection
from controller_core.channel.endpoints import connect
from controller_core.channel.errors import ChannelError
from controller_core.channel.refusals import refusal
from controller_core.remoting.codes import ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.header import Header
from controller_core.remoting.host_port import join_host_port
from controller_core.tls.dialling import ClientTls

CONNECT_TIMEOUT_S: Final = 1.0
CALL_TIMEOUT_S: Final = 1.5


class AskError(Exception):
    """No answer, or one that is a refusal.

    Attributes:
        code: of the answer; None without an answer.
    """

    def __init__(self, problem: str, code: int | None = None) -> None:
        super().__init__(problem)
        self.code = code

    @property
    def is_refusal(self) -> bool:
        """Say whether the peer answered, and not with success."""
        return self.code is not None


class Asker:
    """Asks one address; event loop's thread only."""

    def __init__(
        self, address: tuple[str, int], sign: Sign | None = None, client_tls: ClientTls | None = None
    ) -> None:
        """Name the address; nothing is dialled yet.

        Args:
            address: host and port.
            sign: signs the questions; None for a peer without access control.
            client_tls: TLS; None for that of the process.
        """
        self.address: Final = address
        self._sign: Final = sign
        self._client_tls: Final = client_tls
        self._connection: Connection | None = None

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> RemotingCommand:
        """Return the answer to one request.

        Raises:
            AskError: no answer came, or its code is not success.
        """
        command = RemotingCommand.request(code, None if header is None else header.to_ext(), body)
        try:
            if self._connection is None or self._connection.is_closed:
                self._connection = await connect(
                    *self.address, CONNECT_TIMEOUT_S, client_tls=self._client_tls, sign=self._sign
                )
            answer = await self._connection.call(command, CALL_TIMEOUT_S)
        except ChannelError as error:
            # A connection on which an answer is late may be one to a host that is gone.
            self.close()
            raise AskError(f"request {code:d} to {join_host_port(*self.address)}: {error}") from error
        if answer.code != ResponseCode.SUCCESS:
            raise AskError(refusal(f"request {code:d}", answer), answer.code)
        return answer

    def close(self) -> None:
        """End the connection; the next question dials again."""
        if self._connection is not None:
            # At once: TLS would first wait for the other end, and a command's loop ends before that.
            self._connection.abort()
            self._connection = None
