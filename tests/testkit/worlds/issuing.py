"""The operator's world with cert-manager beside it, which looks at its Certificates before each pass."""

import base64
from collections.abc import Mapping
from typing import Any

from cryptography import x509

from rocketmq_operator.clients.api import PeerUnavailableError
from testkit.memory.cert_manager import KIND, MemoryCertManager, SigningIssuer
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]
ISSUER = "company"


class IssuingWorld(OperatorWorld):
    """A world with cert-manager, and an issuer named `company` unless it is made without.

    Attributes:
        refusal: what the API server answers who asks for Certificates; None for a list of them.
    """

    def __init__(self, tls: Json | None = None, *, has_issuer: bool = True, **parts: Any) -> None:
        super().__init__(cluster={"tls": asked(ISSUER) if tls is None else tls}, **parts)
        self.cert_manager = MemoryCertManager(self.kube)
        if has_issuer:
            self.make_issuer(ISSUER)
        self.refusal: PeerUnavailableError | None = None
        find = self.kube.find

        async def find_unless_refused(kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
            if kind == KIND and self.refusal is not None:
                raise self.refusal
            return await find(kind, namespace, labels)

        self.kube.find = find_unless_refused  # type: ignore[method-assign]

    def make_issuer(self, name: str) -> SigningIssuer:
        """Make an issuer, or give one that is there another authority."""
        made = SigningIssuer(name, self.controllers.now)
        self.cert_manager.issuers[name] = made
        return made

    async def one_pass(self) -> list[float | None]:
        """Let cert-manager work, then the operator."""
        self.cert_manager.work(self.controllers.now)
        return await super().one_pass()

    def texts(self, secret: str) -> dict[str, str]:
        """Return what a Secret holds."""
        data = self.get("Secret", secret)["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def hosts(self, secret: str, entry: str) -> set[str]:
        """Return the names of a certificate."""
        found = x509.load_pem_x509_certificate(self.texts(secret)[f"{entry}.crt"].encode())
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return {
            *names.get_values_for_type(x509.DNSName),
            *map(str, names.get_values_for_type(x509.IPAddress)),
        }

    def certificates(self) -> list[str]:
        """Return the names of all Certificates."""
        return sorted(name for kind, _, name in self.kube.objects if kind == KIND)

    def events(self) -> list[tuple[str, str]]:
        """Return reason and note of each Event."""
        found = (value for (kind, *_), value in self.kube.objects.items() if kind == "Event")
        return [(one["reason"], one["note"]) for one in found]


def asked(issuer: str, **more: Any) -> Json:
    """Return a spec of TLS with an issuer."""
    return {"issuerRef": {"name": issuer}, **more}
