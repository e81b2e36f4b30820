"""A headless Chromium without a network, driven over its own debugging protocol.

Only what a test needs: load a page at a size, ask it something in JavaScript, take a picture, and
know which addresses it asked for. The debugging port is bound to loopback by the browser itself and
known from a file in its profile.
"""

import asyncio
import base64
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from testkit.processes.process import ManagedProcess

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_START_TIMEOUT_S = 60.0
_ANSWER_TIMEOUT_S = 60.0
_POLL_S = 0.05
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    # No name resolves and no address answers: the network is off.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--proxy-server=127.0.0.1:9",
)


def browser_path() -> str | None:
    """Return the browser's path; None without a browser."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


class Tab:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.asked_for: list[str] = []

    async def call(self, method: str, **options: Any) -> dict[str, Any]:
        """Call a method of the debugging protocol and return its result."""
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": options})
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            while True:
                message = json.loads(await self._socket.receive_str())
                self._note(message)
                if message.get("id") == number:
                    if "error" in message:
                        raise RuntimeError(f"{method}: {message['error']}")
                    return dict(message["result"])

    def _note(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Network.requestWillBeSent":
            self.asked_for.append(message["params"]["request"]["url"])

    async def load(self, file: Path, width: int, height: int, *, dark: bool = False) -> None:
        """Load a file at a size and wait until it is laid out."""
        for domain in ("Page", "Network"):
            await self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)
        # The old document answers until the new one is there, also where both are of one file.
        await self.evaluate("window.isLeft = true")
        await self.call("Page.navigate", url=file.as_uri())
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            while not await self._is_laid_out():  # noqa: ASYNC110 - a change of document takes its listeners along
                await asyncio.sleep(_POLL_S)

    async def _is_laid_out(self) -> bool:
        try:
            found = await self.evaluate("[!window.isLeft, document.readyState, location.protocol]")
        except RuntimeError:
            return False  # the old document went during the request, and the other has not come
        return bool(found == [True, "complete", "file:"])

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page; the page itself need not allow scripts."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def screenshot(self, file: Path) -> None:
        """Write the visible page as a PNG."""
        answer = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(file.write_bytes, base64.b64decode(answer["data"]))


@asynccontextmanager
async def browsing(directory: Path) -> AsyncIterator[Tab]:
    """Start a browser with a profile of its own in `directory` and yield a tab."""
    path = browser_path()
    if path is None:
        raise RuntimeError("no Chromium on the PATH")
    profile = directory / "profile"
    command = [path, *_OPTIONS, f"--user-data-dir={profile}", "about:blank"]
    async with ManagedProcess("chromium", command, directory / "chromium.log"):
        port = await _port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            url = await _tab(session, f"http://127.0.0.1:{port}/json")
            async with session.ws_connect(url, max_msg_size=0) as socket:
                yield Tab(socket)


async def _tab(session: aiohttp.ClientSession, url: str) -> str:
    """Return the address of the first tab, which may come after the port."""
    async with asyncio.timeout(_START_TIMEOUT_S):
        while True:
            async with session.get(url) as answer:
                tabs = [one for one in await answer.json() if one["type"] == "page"]
            if tabs:
                return str(tabs[0]["webSocketDebuggerUrl"])
            await asyncio.sleep(_POLL_S)


async def _port(file: Path) -> int:
    async with asyncio.timeout(_START_TIMEOUT_S):
        while True:
            lines = await asyncio.to_thread(_lines, file)
            if len(lines) > 1:  # the port, then a path: the first line is whole
                return int(lines[0])
            await asyncio.sleep(_POLL_S)


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
