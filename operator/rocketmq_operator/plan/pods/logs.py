"""The files that tell the processes of pods their log level.

| file | read by | how soon |
|---|---|---|
| `log-level` | our own processes (`controller_core.command_line.log_level`) | 2 s after it changed |
| `logback.xml` | RocketMQ's Java processes | at their next start |

Both are keys of the ConfigMap that a pod already has, so that a new level changes no pod. The kubelet brings
a changed ConfigMap to its pods within about a minute.

Java's own scripts name a logback file of the image in `ROCKETMQ_HOME/conf`, as the last and therefore winning
option. With a level the start script gives the process a home of links in the scratch space, in which each
logback file is ours. It is not scanned: RocketMQ's shaded logback of 5.5.0 notices a change, resets its
loggers and then logs nothing any more. Without a level everything stays as it is: RocketMQ logs to files in
the scratch space, and rotates them by size.

Sources: RocketMQ 5.0.0 BrokerStartup.java (`logback_broker.xml`), 5.5.0 bin/mqbroker, mqnamesrv, mqproxy
(`rmq.broker.logback.xml`).
"""

from typing import Final

from rocketmq_operator.api.common import LogLevel
from rocketmq_operator.plan.common import names

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


def java_logs(level: LogLevel | None) -> str:
    """Return the part of a start script that sends Java's log to standard output; empty without a level.

    It is the same for every level, so that only the first one restarts pods.
    """
    return "" if level is None else JAVA_LOGS


def level_file(level: LogLevel | None) -> dict[str, str]:
    """Return the file for our own processes by its name; empty without a level."""
    return {} if level is None else {LEVEL_KEY: level.lower()}


def logback_file(level: LogLevel | None) -> dict[str, str]:
    """Return the file for Java's processes by its name; empty without a level."""
    if level is None:
        return {}
    text = f"""<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{{yyyy-MM-dd'T'HH:mm:ss.SSS}} %p %logger{{0}} %t - %m%n</pattern></encoder>
  </appender>
  <root level="{_JAVA_LEVELS.get(level, level.upper())}"><appender-ref ref="out"/></root>
</configuration>
"""
    return {LOGBACK_KEY: text}
