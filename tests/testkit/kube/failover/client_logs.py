"""The logs of clients in pods, kept when their run has ended: they tell why a client waited."""

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from testkit.kube.kubectl import Cluster, KubeError
from testkit.kube.pods.client_pod import CONTAINER, DATA

_PACKED_WITHIN_S: Final = 30.0


async def keep_client_logs(cluster: Cluster, pods: tuple[str, ...], folder: Path) -> None:
    """Keep RocketMQ's logs of each pod in a `.tgz` of its name; a pod without any is left out."""
    for pod in pods:
        with contextlib.suppress(KubeError):
            script = f"tar -C {DATA} -czf - logs"
            packed = await cluster.shell(pod, CONTAINER, script, timeout_s=_PACKED_WITHIN_S)
            await asyncio.to_thread(_write, folder / f"{pod}.tgz", packed)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
