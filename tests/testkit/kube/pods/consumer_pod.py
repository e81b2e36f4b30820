"""Unmodified Java push consumers in a pod, on the client's defaults: `testkit/java/Consume.java`.

Two receive the topic of the load, one receives transactions that the same program commits.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any, Final

from testkit.kube.kubectl import Cluster, Json, KubeError, until
from testkit.kube.pods.client_pod import CLASSES, CONTAINER, DATA, JAVA, client_objects, remove_client
from testkit.rocketmq.consumers.consumption import Received, TransactionMark, open_transactions
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_programs import compile_java

_JAVA: Final = f'{JAVA} -Drocketmq.client.logUseSlf4j=true -cp {CLASSES}:"$ROCKETMQ_HOME/lib/*"'
_RECEIVES_WITHIN_S: Final = 120.0
_STARTS_MAX: Final = 5
_READ_WITHIN_S: Final = 60.0
_CLOSED_WITHIN_S: Final = 75.0
_RECEIVED: Final = f"{DATA}/received.jsonl"
_TRANSACTIONS: Final = f"{DATA}/transactions.jsonl"


class ConsumerPod:
    """The consumers of one topic, in one process."""

    def __init__(self, cluster: Cluster, name: str, image: str, name_server: str, topic: str) -> None:
        """Take where it runs, its name, RocketMQ's image, the name servers and the topic."""
        self._cluster: Final = cluster
        self._name: Final = name
        self._image: Final = image
        self._name_server: Final = name_server
        self._topic: Final = topic

    async def start(
        self, node_selector: Json | None = None, *, jvm: Sequence[str] = (), transactions: bool = True
    ) -> None:
        """Start them and wait until both receive; the topic must have messages.

        Args:
            node_selector: where the pod must run.
            jvm: further options of the JVM.
            transactions: whether it commits and receives transactions.
        """
        classes = await compile_java(await jars())
        program = (
            f"{' '.join((_JAVA, *jvm))} Consume --name-server '{self._name_server}' --topic {self._topic} "
            f"--output {_RECEIVED} {f'--transactions {_TRANSACTIONS}' if transactions else ''}"
        )
        # A consumer does not start if its first request to a name server fails, as on a full machine.
        script = f"for _ in $(seq {_STARTS_MAX}); do {program}; sleep 1; done & wait $!; exec sleep 3600"
        await self._cluster.apply(*client_objects(self._name, self._image, classes, script, node_selector))

        async def all_receive() -> bool:
            ordered = {one.ordered for one in await self.received()}
            if ordered != {False, True}:
                return False
            return not transactions or any(one.received for one in await self.transactions())

        await until(f"{self._name} receives", all_receive, _RECEIVES_WITHIN_S, poll_s=1.0)

    async def received(self) -> list[Received]:
        """Return what came so far, nothing before the program runs."""
        return [Received.of(line) for line in await self._lines(_RECEIVED)]

    async def transactions(self) -> list[TransactionMark]:
        """Return what became of the transactions so far, nothing before the program runs."""
        return [TransactionMark.of(line) for line in await self._lines(_TRANSACTIONS)]

    async def transactions_until(self, end_ns: int) -> list[TransactionMark]:
        """Return the transactions that were committed before a time (UTC), when none is open any more.

        A broker asks its producers for open transactions every 30 s. Those that are open after that time and
        some more are returned too.
        """
        deadline_s = time.monotonic() + _CLOSED_WITHIN_S
        while True:
            marks = [one for one in await self.transactions() if one.received or one.ts_ns < end_ns]
            if not open_transactions(marks) or time.monotonic() > deadline_s:
                return marks
            await asyncio.sleep(1.0)

    async def _lines(self, path: str) -> list[dict[str, Any]]:
        try:
            text = await self._cluster.shell(self._name, CONTAINER, f"cat {path}", timeout_s=_READ_WITHIN_S)
        except KubeError:
            return []
        return [json.loads(line) for line in text.decode().rpartition("\n")[0].splitlines()]

    async def remove(self) -> None:
        """Remove the pod and its ConfigMap."""
        await remove_client(self._cluster, self._name)
