"""How a start script runs a Java process, and the options that its JVM takes."""

from typing import Final

from rocketmq_operator.api.common import Resources
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import quantity

JAVA_RUN: Final = """# The public start scripts do not pass signals on, \
and process 1 ignores those that it has no handler for.
stop() {
  for process in /proc/[0-9]*; do
    if [ "$(cat "$process/comm" 2>/dev/null)" = java ]; then kill -TERM "${process#/proc/}"; fi
  done
}
trap stop TERM INT
sh "$ROCKETMQ_HOME/bin/$program" "$@" &
# `wait` ends at a signal too; `code` is how the process ended.
code=0
wait $! || code=$?
while kill -0 $! 2>/dev/null; do code=0; wait $! || code=$?; done
"""
"""The part of each start script that runs a Java process; needs `program`, and its arguments as the script's
own.

The script ends with `exit "$code"`: the kubelet tells by it whether the process crashed.
"""


def java_options(wanted: Resources) -> str:
    """Return the JVM's options: half of the memory for the heap, a quarter for direct buffers.

    They come last in the public start scripts and so win over their fixed eight gigabytes.
    """
    mebibytes = int((quantity(wanted.memory) or 0) / 2**20)
    return (
        f"-Xms{mebibytes // 2}m -Xmx{mebibytes // 2}m -XX:MaxDirectMemorySize={mebibytes // 4}m "
        f"-Duser.home={names.SCRATCH_PATH}"
    )
