"""One handler behind a real HTTP port of loopback, for as long as a test needs it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def http_served(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], path: str = "/{path:.*}"
) -> AsyncIterator[str]:
    """Answer GET at `path`, by default at all of them; yield host:port."""
    application = web.Application()
    application.router.add_get(path, answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
