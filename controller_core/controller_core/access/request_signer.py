"""Sign requests with the credentials in a directory, and follow their changes.

The directory has the files `username` and `password`, as a mounted Secret of type kubernetes.io/basic-auth
has them. Kubernetes replaces both at once when the Secret changes. The signer looks at the files every
`LOOK_S`, so a new password takes effect without a restart.

Before the files exist, requests leave unsigned. Thus a process may start before its Secret is made, and
brokers without access control do not need any. Files that cannot be read later change nothing: the last
credentials stay in use. The log tells of both, and never of a password.
"""

import logging
import time
from pathlib import Path
from typing import Final

from controller_core.access.signing import Credentials, signed
from controller_core.remoting.command import RemotingCommand

USERNAME_FILE: Final = "username"
PASSWORD_FILE: Final = "password"  # noqa: S105 - the name of a file
LOOK_S: Final = 1.0
CREDENTIAL_BYTES_MAX: Final = 4_096

_log = logging.getLogger(__name__)
_Version = tuple[tuple[int, int, int], ...]


class RequestSigner:
    """Signs requests; a `Sign`. May be called in any thread."""

    def __init__(self, directory: Path) -> None:
        """Take the directory; no file is read before the first request."""
        self.directory: Final = directory
        self._credentials: Credentials | None = None
        self._version: _Version = ()
        self._look_at_s = 0.0
        self._problem = ""

    def __repr__(self) -> str:
        """Return the directory alone."""
        return f"RequestSigner({str(self.directory)!r})"

    @property
    def username(self) -> str:
        """Return the user that signs; empty before the files exist."""
        credentials = self._current()
        return "" if credentials is None else credentials.username

    def __call__(self, request: RemotingCommand) -> RemotingCommand:
        """Return the request with a signature; the same request before the files exist."""
        credentials = self._current()
        return request if credentials is None else signed(request, credentials)

    def _current(self) -> Credentials | None:
        now_s = time.monotonic()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_S
            self._look()
        return self._credentials

    def _look(self) -> None:
        try:
            version = tuple(self._stat(name) for name in (USERNAME_FILE, PASSWORD_FILE))
            if version == self._version:
                return
            found = Credentials(self._read(USERNAME_FILE), self._read(PASSWORD_FILE))
        except (OSError, ValueError) as error:
            self._note(str(error))
            return
        self._version, self._credentials, self._problem = version, found, ""
        _log.info("requests to brokers are signed as user %s", found.username)

    def _stat(self, name: str) -> tuple[int, int, int]:
        status = (self.directory / name).stat()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read(self, name: str) -> str:
        """Return a file's only line.

        Raises:
            OSError: it cannot be read.
            ValueError: its content is too long, empty, of several lines or not UTF-8.
        """
        path = self.directory / name
        with path.open("rb") as file:
            content = file.read(CREDENTIAL_BYTES_MAX + 1)
        text = content.removesuffix(b"\n").decode(errors="backslashreplace")
        is_text = bool(text) and text.isprintable() and text.encode() == content.removesuffix(b"\n")
        if len(content) > CREDENTIAL_BYTES_MAX or not is_text:
            # Never the content itself: it may be a password.
            raise ValueError(
                f"{path}: invalid content (expected a printable line of up to {CREDENTIAL_BYTES_MAX} bytes)"
            )
        return text

    def _note(self, problem: str) -> None:
        """Log a problem once."""
        if problem == self._problem:
            return
        self._problem = problem
        if self._credentials is None:
            _log.info("requests to brokers are not signed: %s", problem)
        else:
            _log.warning("the last credentials stay in use: %s", problem)
