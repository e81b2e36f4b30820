"""A real API server and etcd, for many objects on one machine.

The controllers of StatefulSets and Deployments run; nodes do not exist.

Problem: what an operator of hundreds of groups costs cannot be seen where each of them takes gigabytes.
Shape: etcd, kube-apiserver and kube-controller-manager as processes, in a network namespace of their own in
which the ranges of Services and pods are this host itself, so that whoever listens on a port answers at every
address. `Pods` stands in for kubelets: a pod is Running and Ready a moment after it was made, at an address
of its own. Never: nodes, volumes, images, or a garbage collector. A deleted object leaves its children.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from testkit.kube.kubectl import KubeError, program, until
from testkit.processes.process import ManagedProcess

Json = dict[str, Any]
ADMIN: Final = "admin"
SERVICES: Final = "10.96.0.0/16"
PODS: Final = "10.244.0.0/16"
PORT: Final = 6443
UP_WITHIN_S: Final = 90.0
_ETCD_PORT: Final = 2379
_INSIDE: Final = "RMQHA_BARE_KUBE"
_CALLS_A_SECOND: Final = 1_000
_AT_ONCE: Final = 16


def why_not() -> str:
    """Return why there can be none on this machine; empty if there can."""
    missing = [
        name for name in ("etcd", "kube-apiserver", "kube-controller-manager") if program(name) is None
    ]
    if missing:
        return f"{', '.join(missing)}: not installed"
    return "" if os.geteuid() == 0 else "a network namespace takes root"


def enter_own_network() -> None:
    """Start this program again in a network namespace of its own; returns there, and never here."""
    if os.environ.get(_INSIDE):
        for words in (
            ["link", "set", "lo", "up"],
            ["route", "add", "local", SERVICES, "dev", "lo"],
            ["route", "add", "local", PODS, "dev", "lo"],
        ):
            subprocess.run(["ip", *words], check=True)
        return
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])  # noqa: S606 - the same program again


class BareKube:
    """The processes; an async context manager.

    Attributes:
        audit_log: one line for each call of `accounts`.
    """

    def __init__(self, folder: Path, accounts: tuple[str, ...]) -> None:
        """Describe it below a folder; each account has a kubeconfig, and what it asks is logged."""
        self._folder: Final = folder
        self._accounts: Final = accounts
        self.audit_log: Final = folder / "audit.jsonl"
        self._processes: Final = [
            ManagedProcess(name, [str(program(name)), *options], folder / f"{name}.log")
            for name, options in (
                ("etcd", self._etcd()),
                ("kube-apiserver", self._api_server()),
                ("kube-controller-manager", self._controllers()),
            )
        ]

    async def __aenter__(self) -> Self:
        """Start all and wait until the API server answers; ends them again if it does not."""
        self._write_files()
        try:
            *servers, controllers = self._processes
            for process in servers:
                await process.start()
            await until("the API server answers", self._answers, UP_WITHIN_S)
            # Why not with them: it ends where the API server is not healthy within 10 s.
            await controllers.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all."""
        await self.stop()

    async def stop(self) -> None:
        """End all, the API server before what it stands on."""
        for process in reversed(self._processes):
            await process.stop()

    def kubeconfig(self, account: str) -> Path:
        """Return an account's kubeconfig."""
        return self._folder / f"{account}.kubeconfig"

    def session(self, account: str = ADMIN) -> aiohttp.ClientSession:
        """Return a session that asks as this account; paths are the API server's."""
        return aiohttp.ClientSession(
            f"https://127.0.0.1:{PORT}",
            headers={"Authorization": f"Bearer {account}"},
            connector=aiohttp.TCPConnector(ssl=False, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, connect=5.0),
        )

    def calls_of(self, account: str) -> list[Json]:
        """Return what an account has asked so far: one event for each call that began."""
        with self.audit_log.open() as lines:
            events = (json.loads(line) for line in lines if line.endswith("\n"))
            first = {event["auditID"]: event for event in events if event["user"]["username"] == account}
        return list(first.values())

    async def _answers(self) -> bool:
        dead = [process for process in self._processes[:-1] if not process.running]
        if dead:
            raise RuntimeError(f"{dead[0].name} ended:\n{dead[0].tail()}")
        try:
            async with self.session() as session, session.get("/readyz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    def _write_files(self) -> None:
        key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        (self._folder / "sa.key").write_bytes(pem)
        everybody = (ADMIN, *self._accounts)
        tokens = (f'{account},{account},{account},"system:masters"\n' for account in everybody)
        (self._folder / "tokens.csv").write_text("".join(tokens))
        rules = [{"level": "Metadata", "users": list(self._accounts)}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        (self._folder / "policy.yaml").write_text(
            yaml.safe_dump(policy | {"omitStages": ["RequestReceived"]})
        )
        self.audit_log.touch()
        for account in everybody:
            self.kubeconfig(account).write_text(yaml.safe_dump(_kubeconfig(account)))

    def _etcd(self) -> list[str]:
        here = f"http://127.0.0.1:{_ETCD_PORT}"
        return [
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={here}",
            f"--advertise-client-urls={here}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
        ]

    def _api_server(self) -> list[str]:
        key = self._folder / "sa.key"
        return [
            f"--etcd-servers=http://127.0.0.1:{_ETCD_PORT}",
            f"--service-cluster-ip-range={SERVICES}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={PORT}",
            f"--cert-dir={self._folder / 'certificates'}",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--audit-policy-file={self._folder / 'policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-mode=blocking",
        ]

    def _controllers(self) -> list[str]:
        return [
            f"--kubeconfig={self.kubeconfig(ADMIN)}",
            "--controllers=statefulset-controller,deployment-controller,replicaset-controller",
            "--leader-elect=false",
            f"--kube-api-qps={_CALLS_A_SECOND}",
            f"--kube-api-burst={_CALLS_A_SECOND}",
        ]


def _kubeconfig(account: str) -> Json:
    server = {"server": f"https://127.0.0.1:{PORT}", "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bare", "cluster": server}],
        "users": [{"name": account, "user": {"token": account}}],
        "contexts": [{"name": "bare", "context": {"cluster": "bare", "user": account}}],
        "current-context": "bare",
    }


class Pods:
    """Stands in for kubelets: says of each pod of a namespace, once, that it is Running and Ready."""

    def __init__(
        self, session: aiohttp.ClientSession, namespace: str, on_ready: Callable[[str], None]
    ) -> None:
        """Take a session, and a callback that gets the name of each ready pod."""
        self._session: Final = session
        self._path: Final = f"/api/v1/namespaces/{namespace}/pods"
        self._on_ready: Final = on_ready
        self._addresses: Final = _addresses()
        self._known: Final[set[str]] = set()
        self._turns: Final = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Watch pods until cancelled.

        Raises:
            KubeError: the API server refused.
        """
        async with asyncio.TaskGroup() as tasks:
            async for event in watched(self._session, self._path):
                pod = event["object"]
                if event["type"] != "DELETED" and pod["metadata"]["uid"] not in self._known:
                    self._known.add(pod["metadata"]["uid"])
                    tasks.create_task(self._make_ready(pod))

    async def _make_ready(self, pod: Json) -> None:
        conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
        ip, name = next(self._addresses), pod["metadata"]["name"]
        status = {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "conditions": conditions}
        async with self._turns:
            await sent(self._session, "PATCH", f"{self._path}/{name}/status", {"status": status})
        self._on_ready(name)


def _addresses() -> Iterator[str]:
    return (f"10.244.{number >> 8}.{number & 255}" for number in range(256, 1 << 16))


async def sent(session: aiohttp.ClientSession, method: str, path: str, body: Json | None = None) -> Json:
    """Ask the API server; return its answer.

    Raises:
        KubeError: it refused.
    """
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    async with session.request(method, path, json=body, headers={"Content-Type": kind}) as response:
        answer: Json = await response.json()
        if response.status >= 400:
            raise KubeError(f"{method} {path}: {response.status} {answer.get('message')}")
        return answer


async def watched(session: aiohttp.ClientSession, path: str, since: str = "0") -> AsyncIterator[Json]:
    """Yield the objects at a path and each change of them until the stream ends; lines have any length.

    A kind that is new is refused for a moment (429, "storage is (re)initializing"): then nothing is
    yielded, after the time asked for.

    Raises:
        aiohttp.ClientResponseError: it is refused otherwise.
    """
    async with session.get(path, params={"watch": "true", "resourceVersion": since}) as response:
        if response.status == HTTPStatus.TOO_MANY_REQUESTS:
            await asyncio.sleep(float(response.headers.get("Retry-After", "1")))
            return
        response.raise_for_status()
        rest = b""
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return  # the version is gone: the next request returns everything again
                yield event
