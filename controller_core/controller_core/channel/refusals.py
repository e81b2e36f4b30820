"""Describe and log refusals: answers of a peer whose code is not success.

A peer that refuses is alive, and asking again does not help: a person must change something, often access
control. So its code and remark belong in the log, in probes and in errors that depend on the answer. Each
peer is logged once, and again when its refusal changes or after a successful answer, because most requests
are repeated many times per second.
"""

import logging
from typing import Final

from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.text_bounds import one_line

REMARK_CHARS_MAX: Final = 200
"""Of a peer's remark in our texts: a broker may put a whole stack trace into it."""
PEERS_MAX: Final = 10_000
"""Peers whose refusals are remembered; when there are more, all are forgotten and logged again."""


def refusal(asked: str, answer: RemotingCommand) -> str:
    """Return code and remark of an answer that is not a success, as one printable line of bounded length."""
    return f"{asked} was answered {answer.code}: {_shortened(answer.remark or '')}"


def _shortened(remark: str) -> str:
    """Return a peer's remark as one line of at most `REMARK_CHARS_MAX` characters."""
    line = one_line(remark[: REMARK_CHARS_MAX + 1])
    return line if len(line) <= REMARK_CHARS_MAX else f"{line[: REMARK_CHARS_MAX - 3]}..."


class RefusalLog:
    """Logs the refusals of each peer once."""

    def __init__(self, log: logging.Logger) -> None:
        """Take the logger of the module that asks."""
        self._log: Final = log
        self._words: Final[dict[str, str]] = {}

    def refused(self, peer: str, words: str) -> None:
        """Log that a peer refused, unless these words of it were logged last."""
        if self._words.get(peer) == words:
            return
        if len(self._words) >= PEERS_MAX:
            self._words.clear()
        self._words[peer] = words
        self._log.warning("%s refuses: %s", peer, words)

    def answered(self, peer: str) -> None:
        """Learn that a peer answered with success: its next refusal is logged again."""
        if self._words.pop(peer, None) is not None:
            self._log.info("%s does not refuse any more", peer)

    def words(self, peer: str) -> str:
        """Return what a peer refused last with; empty if it has answered with success since."""
        return self._words.get(peer, "")
