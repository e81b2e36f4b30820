"""How a start script runs a Java process, and the options that its JVM takes."""

from typing import Final

from rocketmq_operator.api.common import Resources
from rocketmq_operator.api.pods.jvm import GarbageCollector, Jvm
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import quantity
from rocketmq_operator.plan.common.shaping.override import PodRefusedError

JAVA_STOP: Final = """# The public start scripts do not pass signals on, \
and process 1 ignores those that it has no handler for.
stop() {
  for process in /proc/[0-9]*; do
    if [ "$(cat "$process/comm" 2>/dev/null)" = java ]; then kill -TERM "${process#/proc/}"; fi
  done
}
trap stop TERM INT
"""
JAVA_START: Final = 'sh "$ROCKETMQ_HOME/bin/$program" "$@" &\n'
JAVA_WAIT: Final = """# `wait` ends at a signal too; `code` is how the process ended.
code=0
wait $! || code=$?
while kill -0 $! 2>/dev/null; do code=0; wait $! || code=$?; done
"""
JAVA_RUN: Final = JAVA_STOP + JAVA_START + JAVA_WAIT
"""The part of each start script that runs a Java process; needs `program`, and its arguments as the script's
own.

The script ends with `exit "$code"`: the kubelet tells by it whether the process crashed.
"""


HUGE_PAGES: Final = "-XX:+UseLargePages -XX:+UseTransparentHugePages"
"""The heap lies in huge pages, if the node's kernel gives them on request (`madvise`, the usual default).

Why: a kernel frees the memory of a killed process before it closes its connections, and the start scripts
touch each page of the heap (docs/adr/037-heap-in-huge-pages.md). The first option undoes `-XX:-UseLargePages`
of those scripts, which would switch the second one off.
Source: 5.5.0 runbroker.sh; JDK 17 os_linux.cpp, large_page_init.
"""
_DEFAULT_PARTS: Final = {"heap": 2, "directMemory": 4}
"""Part of the memory: a half, a quarter."""


def java_options(wanted: Resources, jvm: Jvm | None = None, path: str = "spec.jvm") -> str:
    """Return the JVM's options: by default half of the memory for the heap, a quarter for direct buffers.

    They come last in the public start scripts and so win over their fixed eight gigabytes.

    Args:
        wanted: CPU and memory of the container.
        jvm: a person's settings.
        path: where these are in the resource.

    Raises:
        PodRefusedError: heap and direct buffers together need more than the memory.
    """
    jvm = jvm or Jvm()
    memory = int((quantity(wanted.memory) or 0) / 2**20)
    heap = _mebibytes(jvm.heap, memory, _DEFAULT_PARTS["heap"])
    direct = _mebibytes(jvm.direct_memory, memory, _DEFAULT_PARTS["directMemory"])
    if heap + direct > memory:
        raise PodRefusedError(
            f"{path} needs {heap} MiB of heap and {direct} MiB of direct memory: "
            f"more than the {memory} MiB of resources.memory"
        )
    sizes = f"-Xms{heap}m -Xmx{heap}m -XX:MaxDirectMemorySize={direct}m -Duser.home={names.SCRATCH_PATH}"
    return " ".join([sizes, HUGE_PAGES, *_collector_options(jvm.collector), *(jvm.options or ())])


def _mebibytes(text: str | None, memory: int, default_part: int) -> int:
    if text is None:
        return memory // default_part
    if text.endswith("%"):
        return memory * int(text.removesuffix("%")) // 100
    return int((quantity(text) or 0) / 2**20)


def _collector_options(collector: GarbageCollector | None) -> list[str]:
    """Return the options that choose a collector over the one of the start scripts.

    Why the others are switched off: a JVM with two collectors does not start. Java 8 has one that later
    versions do not know.
    """
    if collector is None:
        return []
    off = [f"-XX:-{flag}" for flag in ("UseConcMarkSweepGC", *_FLAGS.values()) if flag != _FLAGS[collector]]
    return ["-XX:+IgnoreUnrecognizedVMOptions", *off, f"-XX:+{_FLAGS[collector]}"]


_FLAGS: Final = {
    GarbageCollector.G1: "UseG1GC",
    GarbageCollector.PARALLEL: "UseParallelGC",
    GarbageCollector.SERIAL: "UseSerialGC",
}
