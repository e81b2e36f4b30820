"""The files that tell the processes of pods their log level.

| file | read by | how soon |
|---|---|---|
| `log-level` | our own processes (`controller_core.command_line.log_level`) | 2 s after it changed |
| `logback.xml` | RocketMQ's Java processes | at their next start |

Both are keys of the ConfigMap that a pod already has, so that a new level changes no pod. The kubelet brings
a changed ConfigMap to its pods within about a minute.

A spec says where Java's processes log (`logTo`). If it does not, a new resource logs to standard output and
an older one as it did: an annotation of the StatefulSet tells them apart, so that an upgrade restarts no pod.

Java's own scripts name a logback file of the image in `ROCKETMQ_HOME/conf`, as the last and therefore winning
option. For standard output the start script gives the process a home of links in the scratch space, in which
each logback file is ours. It is not scanned: RocketMQ's shaded logback of 5.5.0 notices a change, resets its
loggers and then logs nothing any more. With `Files` everything stays as the image has it: RocketMQ logs to
files in the scratch space, and rotates them by size.

Sources: RocketMQ 5.0.0 BrokerStartup.java (`logback_broker.xml`), 5.5.0 bin/mqbroker, mqnamesrv, mqproxy
(`rmq.broker.logback.xml`).
"""

from typing import Final, Protocol

from rocketmq_operator.api.common import LogLevel, LogTarget
from rocketmq_operator.api.names import LOG_TARGET_ANNOTATION
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Json, Live

LEVEL_KEY: Final = "log-level"
LOGBACK_KEY: Final = "logback.xml"
_JAVA_LEVELS: Final = {LogLevel.WARNING: "WARN"}

JAVA_LOGS: Final = f"""# RocketMQ's scripts name a logback file of their home: \
this home is of links, with our file in its place.
home={names.SCRATCH_PATH}/home
rm -rf "$home" && mkdir -p "$home/conf"
for entry in "$ROCKETMQ_HOME"/*; do
  [ "${{entry##*/}}" = conf ] || ln -s "$entry" "$home/"
done
for entry in "$ROCKETMQ_HOME"/conf/*; do
  case ${{entry##*/}} in
    *logback*.xml) ln -s {names.CONFIG_PATH}/{LOGBACK_KEY} "$home/conf/${{entry##*/}}" ;;
    *) ln -s "$entry" "$home/conf/" ;;
  esac
done
export ROCKETMQ_HOME="$home"
"""
"""The part of a start script before its Java process."""


class LogWishes(Protocol):
    """What a spec says of logs."""

    @property
    def log_to(self) -> LogTarget | None:
        """Where Java's processes log."""
        ...

    @property
    def log_level(self) -> LogLevel | None:
        """The least level of a line."""
        ...


def log_target(spec: LogWishes, live: Live | None) -> LogTarget | None:
    """Return where Java's processes log; None for a resource from before the field.

    Args:
        spec: what a person asks for.
        live: the StatefulSet or Deployment of these processes, None before there is one.
    """
    if spec.log_to is not None or live is None:
        return spec.log_to or LogTarget.STDOUT
    annotations = live["metadata"].get("annotations") or {}
    return LogTarget.STDOUT if annotations.get(LOG_TARGET_ANNOTATION) == LogTarget.STDOUT else None


def with_log_target(body: Json, spec: LogWishes) -> Json:
    """Return a StatefulSet or Deployment with the annotation that tells its target later."""
    if spec.log_to is not LogTarget.STDOUT:
        return body
    metadata = body["metadata"]
    annotations = metadata.get("annotations", {}) | {LOG_TARGET_ANNOTATION: str(spec.log_to)}
    return body | {"metadata": metadata | {"annotations": annotations}}


def _is_output(spec: LogWishes) -> bool:
    return spec.log_to is LogTarget.STDOUT or (spec.log_to is None and spec.log_level is not None)


def java_logs(spec: LogWishes) -> str:
    """Return the part of a start script that sends Java's log to standard output; empty for files.

    It is the same for every level, so that a level restarts no pod.
    """
    return JAVA_LOGS if _is_output(spec) else ""


def level_file(level: LogLevel | None) -> dict[str, str]:
    """Return the file for our own processes by its name; empty without a level."""
    return {} if level is None else {LEVEL_KEY: level.lower()}


def logback_file(spec: LogWishes) -> dict[str, str]:
    """Return the file for Java's processes by its name; empty if they log to files."""
    if not _is_output(spec):
        return {}
    level = spec.log_level or LogLevel.INFO
    text = f"""<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %logger{{0}} %t - %m%n</pattern></encoder>
  </appender>
  <root level="{_JAVA_LEVELS.get(level, level.upper())}"><appender-ref ref="out"/></root>
</configuration>
"""
    return {LOGBACK_KEY: text}
