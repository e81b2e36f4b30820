"""The file with a listener's addresses, read again and again: a ConfigMap changes while the process runs.

A file that cannot be read or is wrong leaves the previous addresses in force, and is logged once for each
problem.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from controller_core.route_front.addresses import FILE_BYTES_MAX, AddressesError, ListenerAddresses

_log = logging.getLogger(__name__)


class AddressFile:
    """The addresses of a listener as its file last held them.

    Attributes:
        addresses: in force now.
        problem: why the file was not taken when it was read last; empty if it was.
    """

    def __init__(self, path: Path) -> None:
        """Read the file for the first time.

        Raises:
            AddressesError: the file is wrong.
            OSError: it cannot be read.
        """
        self._path: Final = path
        self._text = _read(path)
        self.addresses = _parsed(path, self._text)
        self.problem = ""

    async def follow(self, every_s: float) -> None:
        """Read the file every `every_s` seconds; never returns."""
        while True:
            await asyncio.sleep(every_s)
            await self.refresh()

    async def refresh(self) -> None:
        """Read the file, and take its addresses if it is right."""
        try:
            text = await asyncio.to_thread(_read, self._path)
            if text != self._text:
                addresses = _parsed(self._path, text)
                self._text, self.addresses = text, addresses
                _log.info("the listener has %d addresses", len(addresses))
            self.problem = ""
        except (AddressesError, OSError) as error:
            if str(error) != self.problem:
                self.problem = str(error)
                _log.error("the address file is not taken, the previous addresses stay: %s", error)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(FILE_BYTES_MAX + 1)


def _parsed(path: Path, text: bytes) -> ListenerAddresses:
    try:
        return ListenerAddresses.parse(text)
    except AddressesError as error:
        raise AddressesError(f"{path} {error}") from error
