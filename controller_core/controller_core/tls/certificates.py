"""Certificates in files, and the context that is made of them.

A context lives as long as the process and takes new certificates into itself when their files have changed:
open connections stay as they are, new handshakes use the new ones. Files are tried on a context of their own
first, so a half-written pair changes nothing and is tried again. New authorities are added; one that shall no
longer be trusted goes with a restart.

Never: a context that two threads use is refreshed by one of them; each thread has `Certificates` of its own.
"""

import logging
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

CHECK_S: Final = 2.0
"""How often the files are looked at."""

_log = logging.getLogger(__name__)


class UnusableCertificatesError(Exception):
    """Files of certificates cannot be read, or do not fit each other.

    Attributes:
        key: the setting that names them.
        path: the first of them.
        problem: the trouble.
    """

    def __init__(self, key: str, path: str, problem: str) -> None:
        self.key, self.path, self.problem = key, path, problem
        super().__init__(f"{key} {path}: {problem}")


@dataclass(slots=True)
class Certificates:
    """One context and the files it is made of.

    Attributes:
        key: the setting that names the certificate, for messages.
        cert_path: certificate chain, PEM; empty for a client that shows none.
        key_path: its private key, PEM.
        trust_path: authorities, PEM; empty to skip verification.
        server_side: which end of a connection this is.
        verify: whether the other end must show a certificate.
        check_hostname: whether a client insists on the name it dialled.
    """

    key: str
    cert_path: str
    key_path: str
    trust_path: str
    server_side: bool
    verify: ssl.VerifyMode
    check_hostname: bool = True
    context: ssl.SSLContext = field(init=False)
    _seen: tuple[object, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        """Load the files.

        Raises:
            UnusableCertificatesError: one cannot be read or does not fit the others.
        """
        self._seen = self._stamps()
        try:
            self.context = self._fresh()
        except (OSError, ssl.SSLError) as error:
            path = self.cert_path or self.trust_path
            raise UnusableCertificatesError(self.key, path, f"cannot be used: {error}") from error

    def refresh(self) -> bool:
        """Take changed files into use; return whether that was done."""
        stamps = self._stamps()
        if stamps == self._seen:
            return False
        try:
            self._fresh()
            self._load(self.context)
        except (OSError, ssl.SSLError) as error:
            _log.warning("changed certificates of %s cannot be used yet: %s", self.key, error)
            return False
        self._seen = stamps
        _log.info("changed certificates of %s are in use", self.key)
        return True

    def _fresh(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if self.server_side else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname and not self.server_side and self.verify != ssl.CERT_NONE
        context.verify_mode = self.verify
        self._load(context)
        return context

    def _load(self, context: ssl.SSLContext) -> None:
        if self.cert_path:
            context.load_cert_chain(self.cert_path, self.key_path)
        if self.trust_path:
            context.load_verify_locations(self.trust_path)

    def _stamps(self) -> tuple[object, ...]:
        return tuple(_stamp(path) for path in (self.cert_path, self.key_path, self.trust_path) if path)


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = Path(path).stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
