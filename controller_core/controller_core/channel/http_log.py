"""The log of our HTTP servers: bytes that are not HTTP are a client's fault, and leave no traceback.

aiohttp answers such a request with 400 and the reason. It also logs it as an error with a traceback, so any
client could fill the log and hide real errors. Every server of this system passes `server_log()` to aiohttp.
"""

import logging
from typing import Final

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

_FAULTS: Final = (HttpProcessingError, RequestPayloadError)


class _ClientFaults(logging.Filter):
    """Drops the records of requests and bodies that cannot be parsed."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether to keep a record."""
        return not (record.exc_info and isinstance(record.exc_info[1], _FAULTS))


_CLIENT_FAULTS: Final = _ClientFaults()


def server_log() -> logging.Logger:
    """Return aiohttp's own logger of servers, which keeps only errors of the server."""
    log = logging.getLogger("aiohttp.server")
    log.addFilter(_CLIENT_FAULTS)  # A filter that the logger has already is not added again.
    return log
