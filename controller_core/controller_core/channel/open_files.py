"""Open files of this process: as many as the system allows, and how many connections they suffice for.

A process starts with a soft limit of 1,024 on many systems, far below its hard limit. A port that runs out of
descriptors cannot accept anybody, members included.
"""

import logging
import resource
from typing import Final

from controller_core import limits

OWN_FILES: Final = limits.HTTP_CONNECTIONS_MAX + 512
"""For HTTP, the log, snapshots, other controllers and brokers that are dialled."""
OPEN_FILES_MAX: Final = 65_536
"""More are not asked for: some systems allow a billion."""

_log = logging.getLogger(__name__)


def raise_open_files() -> int:
    """Raise the soft limit towards the hard one; return the limit that is in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _number(soft)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        _log.warning("open files stay at %d: %s", soft, error)
        return soft
    return wanted


def connections_allowed(wanted: int) -> int:
    """Return how many connections a port may have: `wanted`, or what the free descriptors allow."""
    limit = _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    allowed = max(limit - OWN_FILES, limit // 2)
    if allowed < wanted:
        _log.warning("open files suffice for %d connections instead of %d", allowed, wanted)
    return min(wanted, allowed)


def _number(limit: int) -> int:
    return OPEN_FILES_MAX if limit == resource.RLIM_INFINITY else limit
