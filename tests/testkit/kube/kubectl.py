"""kubectl and helm as awaitable calls: they return the output, and raise with the tool's own words.

Tests speak to the cluster as people do: each change is one process. Only reads, of which a waiting test
makes many, go over connections that stay open (`reading`). Nothing here watches, and each call has a limit of
its own, so a cluster that hangs fails a test instead of stopping the run.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from testkit.kube.reading import ApiReader, ReadError, reader

Json = dict[str, Any]
Answer = TypeVar("Answer")
CALL_TIMEOUT_S: Final = 60.0
HELM_TIMEOUT_S: Final = 240.0
POLL_S: Final = 0.2
STACK_BINARIES: Final = Path.home() / ".cache" / "kube-stack" / "bin"
"""Where the test stack keeps programs that are not in PATH."""


class KubeError(Exception):
    """A call failed, or an expected state did not come; the text says which and shows the output."""


def program(name: str) -> str | None:
    """Return the path of kubectl or helm, None if it is nowhere."""
    return shutil.which(name, path=f"{STACK_BINARIES}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


async def run(
    command: Sequence[str],
    *,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = CALL_TIMEOUT_S,
) -> bytes:
    """Run a program and return what it printed.

    Raises:
        KubeError: it failed, or took longer.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(env or {})},
    )
    try:
        printed, complaint = await asyncio.wait_for(process.communicate(stdin), timeout_s)
    except TimeoutError as error:
        raise KubeError(f"{' '.join(command)}: not done in {timeout_s} s") from error
    finally:
        if process.returncode is None:  # it took longer, or the caller is cancelled
            process.kill()
            await process.communicate()
    if process.returncode != 0:
        raise KubeError(f"{' '.join(command)}: {process.returncode}\n{complaint.decode(errors='replace')}")
    return printed


def kubectl_now(
    *arguments: str, body: Json | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Call kubectl on the cluster of RMQHA_KUBECONFIG, for tests without a loop; `body` is its input.

    Raises:
        subprocess.CalledProcessError: it failed, and `check` is set.
    """
    return subprocess.run(
        [program("kubectl") or "kubectl", "--kubeconfig", os.environ["RMQHA_KUBECONFIG"], *arguments],
        input=None if body is None else json.dumps(body),
        capture_output=True,
        text=True,
        check=check,
        timeout=CALL_TIMEOUT_S,
    )


class Cluster:
    """One cluster through its kubeconfig, one namespace of it."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        """Take the kubeconfig and the namespace that calls are about."""
        self.kubeconfig: Final = kubeconfig
        self.namespace: Final = namespace

    async def kubectl(
        self, *arguments: str, stdin: bytes | None = None, timeout_s: float = CALL_TIMEOUT_S
    ) -> str:
        """Run kubectl in the namespace; return what it printed."""
        path = program("kubectl")
        if path is None:
            raise KubeError("kubectl is not installed")
        command = [path, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments]
        return (await run(command, stdin=stdin, timeout_s=timeout_s)).decode()

    async def helm(self, *arguments: str, timeout_s: float = HELM_TIMEOUT_S) -> str:
        """Run helm in the namespace; return what it printed."""
        path = program("helm")
        if path is None:
            raise KubeError("helm is not installed")
        command = [path, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments]
        return (await run(command, timeout_s=timeout_s)).decode()

    async def plugin(self, *arguments: str, timeout_s: float = CALL_TIMEOUT_S) -> str:
        """Run `kubectl rmqha` in the namespace, as kubectl finds it in PATH; return what it printed."""
        path = program("kubectl")
        if path is None:
            raise KubeError("kubectl is not installed")
        where = [f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]
        scripts = Path(sys.executable).parent
        env = {"PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
        return (await run([path, "rmqha", *arguments, *where], env=env, timeout_s=timeout_s)).decode()

    async def apply(self, *objects: Json) -> None:
        """Apply objects."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        await self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text.encode())

    async def patch_spec(self, what: str, spec: Json) -> None:
        """Merge fields into the spec of an object, which is named as `kind/name`."""
        await self.kubectl("patch", what, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    async def get(self, kind: str, name: str) -> Json:
        """Return one object."""
        return await self._read(lambda known: known.get(kind, self.namespace, name))

    async def find(self, kind: str, selector: str = "") -> list[Json]:
        """Return the objects of a kind, or of several with commas between, those with matching labels."""
        return await self._read(lambda known: known.find(kind, self.namespace, selector))

    async def text(self, path: str) -> str:
        """Return what the API server answers at a path, such as a pod's answer through its proxy."""
        return await self._read(lambda known: known.text(path))

    async def _read(self, question: Callable[[ApiReader], Answer]) -> Answer:
        try:
            return await asyncio.to_thread(lambda: question(reader(self.kubeconfig)))
        except ReadError as error:
            raise KubeError(str(error)) from error

    async def shell(
        self,
        pod: str,
        container: str,
        script: str,
        *,
        stdin: bytes | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> bytes:
        """Run a shell script in a container, with `stdin` if given; return its output, byte for byte."""
        path = program("kubectl")
        if path is None:
            raise KubeError("kubectl is not installed")
        where = [f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]
        reads = [] if stdin is None else ["--stdin"]
        command = [path, *where, "exec", *reads, pod, "-c", container, "--", "sh", "-c", script]
        return await run(command, stdin=stdin, timeout_s=timeout_s)


async def until(
    what: str, holds: Callable[[], Awaitable[bool]], timeout_s: float, *, poll_s: float = POLL_S
) -> float:
    """Wait until a condition holds; return the seconds it took.

    Raises:
        KubeError: it did not hold in time; a failed call counts as not holding.
    """
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    problem = "it does not hold"
    while loop.time() - start_s < timeout_s:
        try:
            if await holds():
                return loop.time() - start_s
            problem = "it does not hold"
        except KubeError as error:
            problem = str(error)
        await asyncio.sleep(poll_s)
    raise KubeError(f"{what}: not in {timeout_s} s: {problem}")
