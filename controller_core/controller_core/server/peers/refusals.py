"""Count refusals of the peers' port by reason, and log each reason once for each host.

A sender that is refused can come again at once, and often. Counting costs it nothing to us; a log line for
each would fill the disk.
"""

import logging
from collections.abc import Mapping
from typing import Final

from controller_core.server.logs import bind

PAIRS_LOGGED_MAX: Final = 1_024
"""Pairs of reason and host that are remembered as logged; then all are forgotten, and logged again."""

_log = logging.getLogger(__name__)


class PeerRefusals:
    """Counts and logs refusals; only on the event loop."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._logged: set[tuple[str, str]] = set()

    @property
    def counts(self) -> Mapping[str, int]:
        """Refusals since the start by reason: `form`, or one of `raft.peer_checks`."""
        return self._counts

    def note(self, peername: object, reason: str, text: str) -> None:
        """Count a refusal, and log the first of its reason from its host.

        Args:
            peername: the sender's socket address.
            reason: one word.
            text: the received value, and the expected one.
        """
        self._counts[reason] = self._counts.get(reason, 0) + 1
        host = str(peername[0]) if isinstance(peername, tuple) and peername else str(peername)
        if (reason, host) in self._logged:
            return
        if len(self._logged) >= PAIRS_LOGGED_MAX:
            self._logged.clear()
        self._logged.add((reason, host))
        _log.warning(
            "a peer connection is closed for what came in",
            extra=bind(peer=str(peername), reason=reason, error=text),
        )
