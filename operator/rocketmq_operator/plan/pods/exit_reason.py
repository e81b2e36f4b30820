"""Pick from the end of a container's log the one line that says why it ended.

The operator reads no logs. Its pods ask the kubelet to keep the last lines of a container that fails
(`terminationMessagePolicy`: `FallbackToLogsOnError`), at most 2,048 bytes. The line wanted is the last one
that names an error. Without such a line it is the last one that is not a frame of a stack trace.

The same failure must give the same text after each restart. So times, addresses in memory and process ids are
left out.

Source: Kubernetes 1.34, pkg/kubelet/kuberuntime/kuberuntime_container.go, convertToKubeContainerStatus.
"""

import re
from collections.abc import Iterable
from typing import Final

from controller_core import bounded_json

EXIT_MESSAGE_LENGTH_MAX: Final = 180
_FRAME: Final = re.compile(r"at [\w.$/<>]+\(|\.\.\. \d+ (more|common frames)|File \"|\^+$|~+\^*~*$")
_ERROR: Final = re.compile(
    r"error|exception|fatal|critical|fail|panic|cannot|could not|unable|invalid|illegal|denied|refused|not "
    r"found|no such"
    r"|no space|not writable|expected|caused by",
    re.IGNORECASE,
)
_VOLATILE: Final = re.compile(
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?"  # times of logs
    r"|\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"
    r"|\[\d+[.,]\d+s\]"  # the JVM's uptime
    r"|\b0x[0-9a-fA-F]{4,}\b|(?<=\w)@[0-9a-f]{5,8}\b"  # addresses in memory, hashes of Java objects
    r"|\bpid[ =:#]*\d+\b"
)
_UNPRINTABLE: Final = re.compile(r"\x1b\[[0-9;]*m|[^\x20-\x7e\u00a0-\uffff]+")


def exit_message(log: str) -> str:
    """Return the line that says why a container ended, without what differs from run to run.

    The result is empty where it said nothing.
    """
    lines = [text for line in log.splitlines() if (text := _line_text(line))]
    whole = [line for line in lines if not _FRAME.match(line)]
    return _last_line(line for line in whole if _ERROR.search(line)) or _last_line(whole) or _last_line(lines)


def _last_line(lines: Iterable[str]) -> str:
    return next(reversed([*lines]), "")[:EXIT_MESSAGE_LENGTH_MAX]


def _line_text(line: str) -> str:
    """Return what a line says; of a line of JSON, as our own programs log, its message."""
    text = _message(line)
    return " ".join(_UNPRINTABLE.sub(" ", _VOLATILE.sub("", text)).split())


def _message(line: str) -> str:
    if not line.lstrip().startswith("{"):
        return line
    try:
        value = bounded_json.decode_object(line)
    except ValueError:
        return line
    texts = [value[key] for key in ("message", "exception") if isinstance(value.get(key), str)]
    return (
        ": ".join([texts[0], *texts[1].splitlines()[-1:]]) if len(texts) > 1 else texts[0] if texts else line
    )
