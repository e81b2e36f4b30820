"""One release of the chart, installed and removed by the commands that README shows, word for word."""

import os
import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Cluster, KubeError, run

ROOT: Final = Path(__file__).parents[3]
NAMESPACE: Final = "rocketmq"
INSTALL_TITLE: Final = "On Kubernetes"
REMOVE_TITLE: Final = "Removing it"
ROCKETMQ_IMAGE: Final = "docker.io/apache/rocketmq:5.5.0"
_COMMAND_TIMEOUT_S: Final = 400.0
_TEXT_LENGTH_MAX: Final = 6_000


@dataclass(frozen=True, slots=True)
class Release:
    """What README's commands made.

    Attributes:
        cluster: its namespace on the cluster.
        group: the broker group of the example.
        seconds: how long each command took, in their order.
    """

    cluster: Cluster
    group: KubeGroup
    seconds: dict[str, float]


def shown_commands(title: str, document: str = "README.md") -> list[str]:
    """Return the commands of the first code block below a title of README or another document here.

    In a block that shows what they print they begin with `$ `.
    """
    text = (ROOT / document).read_text()
    found = re.search(rf"^#+ {re.escape(title)}$.*?^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise AssertionError(f"{document} shows no commands below {title!r}")
    lines = [line for line in found[1].splitlines() if line.strip()]
    typed = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return typed or lines


async def as_shown(cluster: Cluster, command: str) -> str:
    """Run a command as a document shows it, from the top of the tree; return what it printed.

    Only where the images are is added, for clusters that pull them from a registry.
    """
    words = shlex.split(command, comments=True)
    registry = os.environ.get("REGISTRY")
    if registry and words[:2] == ["helm", "install"]:
        words += ["--set", f"images.registry={registry}"]
    script = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join(words)}"
    env = {"KUBECONFIG": str(cluster.kubeconfig)}
    return (await run(["sh", "-c", script], env=env, timeout_s=_COMMAND_TIMEOUT_S)).decode()


async def install(cluster: Cluster) -> Release:
    """Install on a cluster without a release.

    Raises:
        KubeError: the namespace exists, or a command failed; then with what a person would look at first.
    """
    if NAMESPACE in {one["metadata"]["name"] for one in await cluster.find("namespaces")}:
        raise KubeError(f"namespace {NAMESPACE} exists on this cluster: it is not touched")
    await cluster.kubectl("create", "namespace", NAMESPACE)
    # Whatever the chart and the operator make has to satisfy the strictest profile that Kubernetes has.
    await cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    seconds = {}
    for command in shown_commands(INSTALL_TITLE):
        start_s = time.monotonic()
        try:
            await as_shown(cluster, command)
        except KubeError as error:
            raise KubeError(f"{error}\n{await described(cluster)}") from error
        seconds[command] = time.monotonic() - start_s
    return Release(cluster, KubeGroup(cluster, "orders"), seconds)


async def upgrade(cluster: Cluster, *values: str) -> None:
    """Give the release other values, each as `name=value`, and leave the rest of them."""
    words = " ".join(f"--set {shlex.quote(value)}" for value in values)
    await as_shown(
        cluster, f"helm -n {NAMESPACE} upgrade rocketmq-ha charts/rocketmq-ha --reuse-values {words}"
    )


async def measure(cluster: Cluster, *settings: str) -> None:
    """Switch the measuring part on, with more settings if there are any, and wait until it runs."""
    await upgrade(cluster, "measure.enabled=true", *settings)
    deployment = "deployment/rocketmq-ha-measure"
    await cluster.kubectl("rollout", "status", deployment, "--timeout=120s", timeout_s=130.0)


async def described(cluster: Cluster) -> str:
    """Return what a person would look at first."""
    texts = []
    for arguments in (
        ("get", "pods,rmqc,rmqbg,rmqfo", "-o", "wide"),
        ("get", "events", "--sort-by=.lastTimestamp"),
        ("logs", "--selector=app.kubernetes.io/component=operator", "--tail=40"),
    ):
        try:
            texts.append((await cluster.kubectl(*arguments))[-_TEXT_LENGTH_MAX:])
        except KubeError as error:
            texts.append(str(error))
    return "\n".join(texts)


async def remove(cluster: Cluster) -> None:
    """Remove the release, and the namespace with the volumes."""
    for command in shown_commands(REMOVE_TITLE):
        try:
            await as_shown(cluster, command)
        except KubeError:
            continue
    await cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
