"""How a long-running command ends: by itself, or at a signal, with its work cancelled and awaited."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends by itself or SIGTERM or SIGINT comes; then cancel it and wait for its end."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(work)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
