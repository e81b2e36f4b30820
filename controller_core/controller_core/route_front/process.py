"""A route front as a process: it runs until a signal, and then closes its connections."""

import asyncio
import logging
import signal

from controller_core.route_front.front import RouteFront
from controller_core.route_front.http_pages import HttpPages
from controller_core.route_front.settings import RouteFrontSettings

_log = logging.getLogger(__name__)


async def serve_until_signalled(settings: RouteFrontSettings) -> None:
    """Run a route front until SIGTERM or SIGINT.

    Raises:
        AddressesError: the address file is wrong.
        OSError: the file cannot be read, or a port cannot be had.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    front = RouteFront(settings)
    pages = HttpPages(front)
    try:
        await front.start()
        await pages.start(*settings.http)
        _log.info("serving routes on port %d with %d addresses", front.port, len(front.file.addresses))
        await stop.wait()
    finally:
        await pages.stop()
        await front.stop()
