"""An unmodified Java producer in a pod, on the client's defaults, and the reader of its promises.

The programs are those of `testkit.rocketmq.load`, the pod is made by `client_pod`. It outlives the producer,
so that the ledger can be fetched and the topic read from the same place.
"""

import asyncio
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from testkit.kube.group import BROKER_CONTAINER
from testkit.kube.kubectl import Cluster, Json, KubeError, until
from testkit.kube.pods.client_pod import CLASSES, CONTAINER, DATA, JAVA, client_objects, remove_client
from testkit.rocketmq.jars import jars
from testkit.rocketmq.java_programs import compile_java
from testkit.rocketmq.load import (
    LoadSettings,
    LoadStats,
    ReadBackResult,
    Send,
    compare,
    read_ledger,
    signing_options,
    summarise,
)

GAP_S_MAX: Final = 3.0
"""Where a gap is not what a test is about: a client's timeout of one send."""
FAILOVER_GAP_S_MAX: Final = 1.0
"""What README promises. The worst gap of a kill, a deletion and a change in docs/benchmarks.md is half of it;
here other tests' pods take CPU too."""
SENDS_A_SECOND: Final = 200
"""Of the producer that the tests of a release share."""
ONE_OF_EACH_THREAD: Final = 4
"""How many sends may fail where a broker refuses sends for a moment, or a test cannot make its change again.

A client's three tries are over in milliseconds. Where all nodes share two processors, an address may lead to
its companion too late now and then. `make bench-failover` counts how often.
"""
_TOPICS_FILE: Final = "/var/lib/rocketmq/store/config/topics.json"
_JAVA: Final = f'{JAVA} -Drocketmq.client.logUseSlf4j=true -cp {CLASSES}:"$ROCKETMQ_HOME/lib/*"'
_READY_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 40.0
_READ_TIMEOUT_S: Final = 180.0
_ROUTES_KNOWN_S_MAX: Final = 30.0


class LoadPod:
    """One producer in one pod."""

    def __init__(self, cluster: Cluster, name: str, image: str, name_server: str, topic: str) -> None:
        """Take where it runs, its name, RocketMQ's image, the name servers, and a topic of its own."""
        self._cluster: Final = cluster
        self._name: Final = name
        self._image: Final = image
        self._name_server: Final = name_server
        self._topic: Final = topic
        self._user: tuple[str, str] | None = None
        self._java = _JAVA

    async def start(
        self, settings: LoadSettings, *, topic_cluster: str = "", node_selector: Json | None = None
    ) -> None:
        """Start the producer and wait until its first sends were acknowledged.

        Args:
            settings: zero means the client's own default.
            topic_cluster: make the topic in this cluster first; empty leaves it to the broker's automatism.
            node_selector: where the pod must run.
        """
        self._user = settings.user
        self._java = " ".join([_JAVA, *settings.jvm])
        classes = await compile_java(await jars())
        script = self._script(settings, topic_cluster)
        await self._cluster.apply(*client_objects(self._name, self._image, classes, script, node_selector))

        async def sends() -> bool:
            return len([one for one in await self.sends() if one.acknowledged]) >= 10

        await until(f"{self._name} sends", sends, _READY_TIMEOUT_S, poll_s=1.0)

    def _script(self, settings: LoadSettings, topic_cluster: str) -> str:
        make_topic = (
            f'sh "$ROCKETMQ_HOME/bin/mqadmin" updateTopic -n "{self._name_server}" '
            f"-c {topic_cluster} -t {self._topic}; "
            if topic_cluster
            else ""
        )
        load = (
            f"{self._java} LoadClient --name-server '{self._name_server}' --topic {self._topic} "
            f"--ledger {DATA}/ledger.jsonl {' '.join(settings.arguments())}"
        )
        return f"{make_topic}{load} & echo $! >{DATA}/pid; wait $!; echo $? >{DATA}/status; exec sleep 3600"

    async def sends(self) -> list[Send]:
        """Return what the ledger holds now, an empty one before the ledger exists."""
        try:
            text = await self._shell(f"cat {DATA}/ledger.jsonl")
        except KubeError:
            return []
        return await asyncio.to_thread(_parsed, text)

    async def until_brokers_know_topic(self, brokers: Iterable[str]) -> None:
        """Wait until each of these pods has written the topic down.

        Slaves copy their master's topics once a second; one that is younger may be gone with
        its master, its messages not.
        """

        async def known() -> bool:
            command = f"grep -qs '\"{self._topic}\"' {_TOPICS_FILE}; echo $?"
            codes = [await self._cluster.shell(broker, BROKER_CONTAINER, command) for broker in brokers]
            return all(code.strip() == b"0" for code in codes)

        await until(f"every broker knows {self._topic}", known, _ROUTES_KNOWN_S_MAX)

    async def stop(self) -> LoadStats:
        """End the producer in good order and return its numbers."""
        await self._shell(f"kill -TERM $(cat {DATA}/pid)")

        async def ended() -> bool:
            return (await self._shell(f"cat {DATA}/status 2>/dev/null || true")).strip() != b""

        await until(f"{self._name} has ended", ended, _STOP_TIMEOUT_S)
        return summarise(await self.sends())

    async def read_back(self) -> ReadBackResult:
        """Read the whole topic and compare it with the ledger; call it when the producer has ended.

        A name server that was cut off knows a broker again by its next registration only, some 13 s later at
        most; until then the reader may not find one.
        """
        signed = " ".join(signing_options(self._user))
        command = f"{self._java} ReadBack --name-server '{self._name_server}' --topic {self._topic} {signed}"

        async def read() -> bool:
            await self._shell(f"{command} --output {DATA}/keys.jsonl", timeout_s=_READ_TIMEOUT_S)
            return True

        await until(f"{self._topic} is read back", read, _ROUTES_KNOWN_S_MAX, poll_s=2.0)
        lines = (await self._shell(f"cat {DATA}/keys.jsonl")).decode().splitlines()
        return compare(await self.sends(), [json.loads(line)["key"] for line in lines])

    async def stop_without_loss(
        self, *, gap_s_max: float | None = GAP_S_MAX, failed_max: int | None = None
    ) -> None:
        """End the producer; whatever was acknowledged must be read back, and no gap may have been longer.

        Args:
            gap_s_max: None where it may be as long as it takes.
            failed_max: how many sends a client may have seen fail after its own tries, None for any number.
                Those that it began before its first was acknowledged do not count: a JVM that starts on a
                busy machine takes their 3 s for itself.
        """
        stats = await self.stop()
        assert stats.acknowledged > 0
        assert (await self.read_back()).lost == frozenset()
        assert gap_s_max is None or stats.longest_gap_s < gap_s_max, stats
        failed = failures(await self.sends())
        assert failed_max is None or len(failed) <= failed_max, failed

    async def remove(self) -> None:
        """Remove the pod and its ConfigMap."""
        await remove_client(self._cluster, self._name)

    async def _shell(self, script: str, *, timeout_s: float = 60.0) -> bytes:
        return await self._cluster.shell(self._name, CONTAINER, script, timeout_s=timeout_s)


def failures(sends: Iterable[Send]) -> list[str]:
    """Return when each failed send began, how long it took, and what it said.

    Times count from the first acknowledgement.
    """
    ordered = sorted(sends, key=lambda one: one.start_ns)
    first_ns = min((one.end_ns for one in ordered if one.acknowledged), default=0)
    return [
        f"{(one.start_ns - first_ns) / 1e9:.1f} s: {one.status} "
        f"after {(one.end_ns - one.start_ns) / 1e9:.1f} s: {one.problem}"
        for one in ordered
        if not one.acknowledged and one.start_ns > first_ns
    ]


def _parsed(text: bytes) -> list[Send]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "ledger.jsonl"
        path.write_bytes(text)
        return read_ledger(path)
