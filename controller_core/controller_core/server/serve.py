"""`controller-core serve`: read the settings, open the log, run until a signal, stop in good order.

SIGTERM and SIGINT hand leadership over and end with 0; a second one ends at once. A bad setting ends with 2,
a log that is damaged, locked or another node's with 3: restarting helps in none of these. A disk that fails
or is full is waited out (`supervisor`).

The loop is uvloop's: it keeps asyncio's promises and needs a third less CPU for each request.
"""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop

from controller_core.channel.open_files import raise_open_files
from controller_core.command_line.log_level import follow_log_level
from controller_core.log.errors import (
    LogCorruptError,
    LogFailedError,
    LogFullError,
    LogLockedError,
    LogMisuseError,
)
from controller_core.server import logs
from controller_core.server.logs import bind
from controller_core.server.settings import config
from controller_core.server.settings.config import InvalidSettingError
from controller_core.server.settings.live_config import LiveConfig, read_file
from controller_core.server.supervisor import EXIT_LOG, Supervisor

EXIT_FAILED: Final = 1
GARBAGE_OBJECTS: Final = 20_000
GARBAGE_YOUNG_ROUNDS: Final = 20
GARBAGE_MIDDLE_ROUNDS: Final = 50
"""When Python looks for cyclic garbage: of new objects after so many, of all so seldom.

Why not its own 700, 10, 10: each command in flight is a dozen unconnected objects, and the search took a
tenth of the leader's CPU. Reference counts free nearly all garbage here.
"""

_LOG_ERRORS: Final = (LogCorruptError, LogFailedError, LogFullError, LogLockedError, LogMisuseError)

_log = logging.getLogger(__name__)


def serve_until_signalled(path: Path | None, overrides: Sequence[str]) -> int:
    """Run a node until a signal stops it; return the exit status.

    Raises:
        InvalidSettingError: a setting is missing or bad.
    """
    given = read_file(path) if path is not None else {}
    given |= _parse_overrides(overrides)
    settings, warnings = config.load(given)
    logs.configure(settings.log_level, node=settings.self_id, group=settings.group)
    follow_log_level(settings.log_level)
    for warning in warnings:
        _log.warning(warning)
    live = LiveConfig(settings, given, path)
    live.restore()
    _search_garbage_seldom()
    raise_open_files()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(live))
    except _LOG_ERRORS as error:
        _log.critical("the log cannot be used", extra=bind(error=str(error)))
        sys.stderr.write(f"controller-core: {error}\n")
        return EXIT_LOG
    except OSError as error:
        _log.critical("a port cannot be opened", extra=bind(error=str(error)))
        sys.stderr.write(f"controller-core: {error}\n")
        return EXIT_FAILED


def _search_garbage_seldom() -> None:
    gc.freeze()  # Imported objects stay for ever, so do not search them again.
    gc.set_threshold(GARBAGE_OBJECTS, GARBAGE_YOUNG_ROUNDS, GARBAGE_MIDDLE_ROUNDS)


def _parse_overrides(overrides: Sequence[str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise InvalidSettingError("--set", override, "must be of the form KEY=VALUE")
        values[key.strip()] = value
    return values


async def _serve(live: LiveConfig) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stop, number)
    return await Supervisor(live).run(stop)


def _on_signal(stop: asyncio.Event, number: signal.Signals) -> None:
    _log.info("told to stop", extra=bind(signal=number.name))
    if stop.is_set():
        # Why: a second signal means that an orderly end takes too long.
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    stop.set()
