"""Asking the Kubernetes API server, and kubelets, in the name of the pod's service account.

Problem: the collector needs three things of a cluster (its Events, where the pods of broker groups run, what
a kubelet measures of them), and must not trust an answer's size, nor a token to live as long as the process.
Shape: the token is read again for each request, since the kubelet renews the file under a running pod; an
answer is read up to a bound; every refusal is one of two errors with a word for the counter. Never: nothing
is written to the cluster, and no redirect is followed with the token.

Source: Kubernetes documentation, "Accessing the API from a Pod"; "API Concepts", on lists, watches and 410
Gone.
"""

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import aiohttp

from controller_core import bounded_json
from controller_core.error_text import error_text
from controller_core.remoting.host_port import bracketed

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ANSWER_BYTES_MAX = 33_554_432
CONNECT_TIMEOUT_S = 3.0
REQUEST_TIMEOUT_S = 10.0
_READ_BYTES = 65_536

Json = dict[str, Any]


class ClusterError(Exception):
    """A request to the API server or a kubelet failed.

    Attributes:
        result: one word for the counter: refused, timeout or error.
    """

    def __init__(self, result: str, text: str) -> None:
        super().__init__(text)
        self.result = result


class ExpiredError(ClusterError):
    """410: the place in the history from which we wanted to go on is forgotten; a list is needed."""

    def __init__(self, text: str) -> None:
        super().__init__("expired", text)


class NoClusterError(ValueError):
    """The options need a cluster, but the process runs outside one."""


@dataclass(frozen=True, slots=True)
class ClusterApi:
    """The server to ask, and the identity to use.

    Attributes:
        url: the API server, without a path.
        token: the file with the service account's token; without the file no token is sent.
        trusted: what the API server's certificate is checked against; None: the system's authorities.
        kubelets: the same for kubelets.
        kubelet_scheme: https, or http for a server of a test.
        kubelet_port: where kubelets answer.
    """

    url: str
    token: Path
    trusted: ssl.SSLContext | None = None
    kubelets: ssl.SSLContext | None = None
    kubelet_scheme: str = "https"
    kubelet_port: int = 10_250

    @classmethod
    def of_pod(cls, url: str | None = None, *, kubelet_certificates: bool = True) -> Self:
        """Describe the cluster that this pod runs in.

        Args:
            url: the API server; None: what the pod's environment says.
            kubelet_certificates: whether kubelets must show a certificate of the cluster's authority.

        Raises:
            NoClusterError: no API server is named, or the authority's file is missing or none.
        """
        host, port = (
            os.environ.get("KUBERNETES_SERVICE_HOST"),
            os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
        )
        if url is None and not host:
            raise NoClusterError("not in a pod: KUBERNETES_SERVICE_HOST is not set; name an --api-server")
        asked = url or f"https://{bracketed(str(host))}:{port}"
        authority = SERVICE_ACCOUNT / "ca.crt"
        try:
            trusted = ssl.create_default_context(cafile=authority) if asked.startswith("https:") else None
            kubelets = ssl.create_default_context(cafile=authority if authority.exists() else None)
        except OSError as error:
            raise NoClusterError(f"{authority}: {error}") from error
        if not kubelet_certificates:
            kubelets.check_hostname = False
            kubelets.verify_mode = ssl.CERT_NONE
        return cls(asked.rstrip("/"), SERVICE_ACCOUNT / "token", trusted, kubelets)

    def kubelet_url(self, address: str, path: str) -> str:
        """Return the URL of a path at the kubelet of a node's address."""
        return f"{self.kubelet_scheme}://{bracketed(address)}:{self.kubelet_port}{path}"

    async def read(self, session: aiohttp.ClientSession, path: str, query: Mapping[str, str]) -> Json:
        """Return one answer of the API server.

        Raises:
            ExpiredError: status 410.
            ClusterError: any other failure.
        """
        timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        body = bytearray()
        async with self.asked(session, self.url + path, query, timeout) as response:
            async for part in response.content.iter_chunked(_READ_BYTES):
                body += part
                if len(body) > ANSWER_BYTES_MAX:
                    raise ClusterError("error", f"{path}: more than {ANSWER_BYTES_MAX} bytes")
        try:
            answer = bounded_json.decode(body)
        except ValueError as error:
            raise ClusterError("error", f"{path}: no JSON: {error}") from error
        if not isinstance(answer, dict):
            raise ClusterError("error", f"{path}: no JSON object")
        return answer

    @asynccontextmanager
    async def asked(
        self,
        session: aiohttp.ClientSession,
        url: str,
        query: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's, which counts each read apart
        *,
        of_kubelet: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the answer to a GET once its status is 200.

        Failures inside the block come out translated too.

        Raises:
            ExpiredError: status 410.
            ClusterError: any other failure.
        """
        trusted = self.kubelets if of_kubelet else self.trusted
        try:
            async with session.get(
                url,
                params=query,
                headers=self._headers(),
                timeout=timeout,
                ssl=True if trusted is None else trusted,
                allow_redirects=False,
            ) as response:
                _check(url, response.status)
                yield response
        except TimeoutError as error:
            raise ClusterError("timeout", f"{url}: no answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ClusterError("error", f"{url}: {error_text(error)}") from error

    def _headers(self) -> dict[str, str]:
        try:
            token = self.token.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return {}
        return {"Authorization": f"Bearer {token}"}


def _check(url: str, status: int) -> None:
    match status:
        case 200:
            return
        case 410:
            raise ExpiredError(f"{url}: status 410")
        case 401 | 403:
            raise ClusterError("refused", f"{url}: status {status}: the service account may not")
        case _:
            raise ClusterError("error", f"{url}: status {status}")
