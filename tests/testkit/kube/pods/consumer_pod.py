"""Two unmodified Java push consumers in a pod, on the client's defaults: `testkit/java/Consume.java`."""

import json
from typing import Final

from testkit.kube.kubectl import Cluster, Json, KubeError, until
from testkit.kube.pods.client_pod import CLASSES, CONTAINER, DATA, JAVA, client_objects
from testkit.rocketmq.consumption import Received
from testkit.rocketmq.jars import jars
from testkit.rocketmq.load import compile_java

_JAVA: Final = f'{JAVA} -Drocketmq.client.logUseSlf4j=true -cp {CLASSES}:"$ROCKETMQ_HOME/lib/*"'
_RECEIVES_WITHIN_S: Final = 120.0
_READ_WITHIN_S: Final = 60.0


class ConsumerPod:
    """The consumers of one topic, in one process."""

    def __init__(self, cluster: Cluster, name: str, image: str, name_server: str, topic: str) -> None:
        """Take where it runs, its name, RocketMQ's image, the name servers and the topic."""
        self._cluster: Final = cluster
        self._name: Final = name
        self._image: Final = image
        self._name_server: Final = name_server
        self._topic: Final = topic

    async def start(self, node_selector: Json | None = None) -> None:
        """Start them and wait until both receive; the topic must have messages."""
        classes = await compile_java(await jars())
        script = (
            f"{_JAVA} Consume --name-server '{self._name_server}' --topic {self._topic} "
            f"--output {DATA}/received.jsonl & wait $!; exec sleep 3600"
        )
        await self._cluster.apply(*client_objects(self._name, self._image, classes, script, node_selector))

        async def both() -> bool:
            return {one.ordered for one in await self.received()} == {False, True}

        await until(f"{self._name} receives", both, _RECEIVES_WITHIN_S, poll_s=1.0)

    async def received(self) -> list[Received]:
        """Return what came so far, nothing before the program runs."""
        script = f"cat {DATA}/received.jsonl"
        try:
            text = await self._cluster.shell(self._name, CONTAINER, script, timeout_s=_READ_WITHIN_S)
        except KubeError:
            return []
        lines = text.decode().rpartition("\n")[0].splitlines()
        return [Received.of(json.loads(line)) for line in lines]

    async def remove(self) -> None:
        """Remove the pod and its ConfigMap."""
        await self._cluster.kubectl(
            "delete", "pod,configmap", self._name, "--ignore-not-found", "--grace-period=0", "--wait=false"
        )
