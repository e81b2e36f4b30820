"""The least level that a process logs, followed in a file while the process runs.

Every long-running program of this system calls `follow_log_level` once. The file has one word, for instance
`debug`. While the file does not exist, the level is the one that the program started with. A wrong word
leaves the level as it is, and is logged once.

Why a file and not an HTTP request: who may write the file is already decided by whoever mounts it, each
program would need the request, its access rule and a client otherwise, and the level of a new process would
be the old one again. On Kubernetes the file is a key of a ConfigMap, as the level of Java's processes is.

Why a thread: it works beside any event loop, and costs one failed `open` for each look.
"""

import logging
import os
import threading
from pathlib import Path
from typing import Final

LEVELS: Final = ("debug", "info", "warning", "error")
FILE_VARIABLE: Final = "RMQHA_LOG_LEVEL_FILE"
FILE_DEFAULT: Final = "/etc/rocketmq/log-level"
LOOK_S: Final = 2.0
_FILE_CHARS_MAX: Final = 64

_log = logging.getLogger(__name__)


class LogLevelFile:
    """A file with a level, and the level that it last gave the root logger."""

    def __init__(self, path: Path, started: str) -> None:
        """Take the file and the level that holds without it."""
        self._path: Final = path
        self._started: Final = started
        self._current = started
        self._problem = ""

    def refresh(self) -> None:
        """Read the file, and give the root logger its level if it changed."""
        try:
            with self._path.open(encoding="utf-8") as file:
                word = file.read(_FILE_CHARS_MAX).strip().lower()
        except FileNotFoundError:
            word = self._started
        except (OSError, ValueError) as error:
            self._refuse(f"cannot read the log level: {error}")
            return
        if word not in LEVELS:
            self._refuse(f"{self._path} has log level {word!r} (expected one of {', '.join(LEVELS)})")
            return
        self._problem = ""
        if word != self._current:
            self._take(word)

    def _refuse(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            _log.error("the log level stays %s: %s", self._current, problem)

    def _take(self, word: str) -> None:
        """Change the level; the line about it is written at the more verbose of both levels."""
        before, after = (logging.getLevelNamesMapping()[one.upper()] for one in (self._current, word))
        root = logging.getLogger()
        root.setLevel(min(before, after))
        _log.log(max(min(before, after), logging.INFO), "the log level is now %s", word)
        root.setLevel(after)
        self._current = word


def follow_log_level(started: str = "info") -> None:
    """Follow the file for as long as the process runs; `started` holds while it does not exist."""
    file = LogLevelFile(Path(os.environ.get(FILE_VARIABLE) or FILE_DEFAULT), started.lower())
    file.refresh()
    threading.Thread(target=_follow, args=(file,), name="log-level", daemon=True).start()


def _follow(file: LogLevelFile) -> None:
    pause = threading.Event()
    while not pause.wait(LOOK_S):
        file.refresh()
