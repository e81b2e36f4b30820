"""A stand-in for cert-manager on a real Kubernetes: its definitions, and a controller in the test's process.

The definitions have the fields of cert-manager 1.21 that the operator writes and reads, word for word. What
the controller does with a Certificate is `testkit.memory.cert_manager.pursue`. An issuer signs as soon as an
Issuer object of its name exists.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from testkit.kube.kubectl import Cluster, KubeError
from testkit.memory.cert_manager import GROUP, SigningIssuer, pursue

Json = dict[str, Any]
LOOK_EVERY_S: Final = 1.0
_TEXT: Final[Json] = {"type": "string"}
_TEXTS: Final[Json] = {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "atomic"}
_USAGES: Final = (
    *("signing", "digital signature", "content commitment", "key encipherment", "key agreement"),
    *("data encipherment", "cert sign", "crl sign", "encipher only", "decipher only", "any", "server auth"),
    *("client auth", "code signing", "email protection", "s/mime", "ipsec end system", "ipsec tunnel"),
    *("ipsec user", "timestamping", "ocsp signing", "microsoft sgc", "netscape sgc"),
)
_CERTIFICATE_SPEC: Final[Json] = {
    "type": "object",
    "required": ["issuerRef", "secretName"],
    "properties": {
        "secretName": _TEXT,
        "dnsNames": _TEXTS,
        "ipAddresses": _TEXTS,
        "usages": _TEXTS | {"items": {"type": "string", "enum": list(_USAGES)}},
        "duration": _TEXT,
        "renewBefore": _TEXT,
        "privateKey": {
            "type": "object",
            "properties": {
                "algorithm": {"type": "string", "enum": ["RSA", "ECDSA", "Ed25519"]},
                "encoding": {"type": "string", "enum": ["PKCS1", "PKCS8"]},
                "rotationPolicy": {"type": "string", "enum": ["Never", "Always"]},
                "size": {"type": "integer"},
            },
        },
        "issuerRef": {
            "type": "object",
            "required": ["name"],
            "properties": {"group": _TEXT, "kind": _TEXT, "name": _TEXT},
        },
    },
}
_ISSUER_SPEC: Final[Json] = {
    "type": "object",
    "properties": {"ca": {"type": "object", "required": ["secretName"], "properties": {"secretName": _TEXT}}},
}
_STATUS: Final[Json] = {
    "type": "object",
    "properties": {
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["status", "type"],
                "properties": {
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                    "message": _TEXT,
                    "observedGeneration": {"type": "integer", "format": "int64"},
                    "reason": _TEXT,
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "type": _TEXT,
                },
            },
        },
        "notAfter": {"type": "string", "format": "date-time"},
    },
}
DEFINITIONS: Final = (f"certificates.{GROUP}", f"issuers.{GROUP}")


def definitions() -> list[Json]:
    """Return the definitions of Certificates and Issuers."""
    return [
        _definition("Certificate", _CERTIFICATE_SPEC, ["cert", "certs"]),
        _definition("Issuer", _ISSUER_SPEC, []),
    ]


def issuer(name: str) -> Json:
    """Return an Issuer of kind CA."""
    spec = {"ca": {"secretName": f"{name}-ca"}}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Issuer", "metadata": {"name": name}, "spec": spec}


def _definition(kind: str, spec: Json, short: Sequence[str]) -> Json:
    singular = kind.lower()
    names = {"kind": kind, "listKind": f"{kind}List", "plural": f"{singular}s", "singular": singular}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": _STATUS}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names | ({"shortNames": list(short)} if short else {}),
            "versions": [version],
        },
    }


class StandInCertManager:
    """The controller for one namespace; `issuers` keep their authority from one test to the next."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Final = cluster
        self.issuers: Final[dict[str, SigningIssuer]] = {}

    def new_authority(self, name: str) -> SigningIssuer:
        """Let an issuer sign with another authority from now on."""
        self.issuers[name] = SigningIssuer(name, datetime.now(UTC))
        return self.issuers[name]

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Work until the block ends."""
        task = asyncio.create_task(self._run(), name="cert-manager")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(KubeError):  # The next look finds what this one did not.
                await self._look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        found = await self._cluster.find("certificates.cert-manager.io")
        named = {one["metadata"]["name"] for one in await self._cluster.find("issuers.cert-manager.io")}
        ready = {name: one for name, one in self.issuers.items() if name in named}
        secrets = {one["metadata"]["name"]: one for one in await self._cluster.find("secrets")}
        for live in found:
            pursued = pursue(live, secrets.get(live["spec"]["secretName"]), ready, datetime.now(UTC))
            if pursued.secret is not None:
                await self._cluster.apply(pursued.secret)
            if pursued.status != live.get("status"):
                patch = json.dumps({"status": pursued.status})
                name = live["metadata"]["name"]
                await self._cluster.kubectl(
                    *("patch", "certificates.cert-manager.io", name, "--subresource=status"),
                    *("--type=merge", f"--patch={patch}"),
                )
