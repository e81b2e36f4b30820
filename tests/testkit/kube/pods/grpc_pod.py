"""RocketMQ's own gRPC client in a pod: from there it reaches every address that a proxy may tell it.

Its jar is in no image; it is written into the pod through `kubectl exec`.
"""

import json
import shlex
from typing import Final

from testkit.kube.kubectl import Cluster
from testkit.kube.pods.client_pod import CLASSES, CONTAINER, DATA, JAVA, client_objects, remove_client
from testkit.rocketmq.jars import client_jars
from testkit.rocketmq.java_programs import compile_java
from testkit.rocketmq.load import signing_options
from testkit.rocketmq.proxy import PROGRAM

_READY_TIMEOUT_S: Final = 120
_WRITE_TIMEOUT_S: Final = 180.0
_CLIENT_TIMEOUT_S: Final = 120.0
_MQADMIN_TIMEOUT_S: Final = 90.0
_JAR: Final = f"{DATA}/client.jar"


class GrpcPod:
    """One pod with the client; a topic and a group are made from it too, because a proxy makes neither."""

    def __init__(self, cluster: Cluster, name: str, image: str) -> None:
        """Take where it runs, its name, and RocketMQ's image."""
        self._cluster: Final = cluster
        self._name: Final = name
        self._image: Final = image

    async def start(self) -> None:
        """Start the pod and bring the client into it."""
        jars = await client_jars()
        classes = await compile_java(jars, (PROGRAM,))
        await self._cluster.apply(*client_objects(self._name, self._image, classes, "exec sleep 3600"))
        ready = ("wait", "--for=condition=Ready", f"pod/{self._name}", f"--timeout={_READY_TIMEOUT_S}s")
        await self._cluster.kubectl(*ready, timeout_s=_READY_TIMEOUT_S + 10.0)
        (jar,) = jars.glob("*.jar")
        await self._cluster.shell(
            self._name, CONTAINER, f"cat >{_JAR}", stdin=jar.read_bytes(), timeout_s=_WRITE_TIMEOUT_S
        )

    async def make(self, name_server: str, cluster: str, topic: str, group: str) -> None:
        """Make a topic and a consumer group on all masters of a cluster."""
        for words in (f"updateTopic -t {topic}", f"updateSubGroup -g {group}"):
            script = f'sh "$ROCKETMQ_HOME/bin/mqadmin" {words} -n "{name_server}" -c {cluster}'
            printed = await self._cluster.shell(self._name, CONTAINER, script, timeout_s=_MQADMIN_TIMEOUT_S)
            assert b"success" in printed, printed.decode(errors="replace")

    async def send_and_read(
        self, endpoints: str, topic: str, group: str, messages: int, user: tuple[str, str] | None = None
    ) -> dict[str, int]:
        """Send messages through a proxy and read them through it; return how many were sent and read.

        Args:
            endpoints: host:port of a proxy.
            topic: exists already; a proxy makes none.
            group: the consumer group, which exists already too.
            messages: how many.
            user: name and password that sign its requests; None for none.

        Raises:
            KubeError: a send failed, or a message was not read.
        """
        signed = shlex.join(signing_options(user))
        options = f"--endpoints {endpoints} --topic {topic} --group {group} --messages {messages} {signed}"
        printed = await self._cluster.shell(
            self._name,
            CONTAINER,
            f"{JAVA} -cp {CLASSES}:{_JAR} {PROGRAM} {options}",
            timeout_s=_CLIENT_TIMEOUT_S,
        )
        counted: dict[str, int] = json.loads(printed.splitlines()[-1])
        return counted

    async def remove(self) -> None:
        """Remove the pod and its ConfigMap."""
        await remove_client(self._cluster, self._name)
