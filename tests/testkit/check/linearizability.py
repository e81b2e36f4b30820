"""Whether a history of calls could have come from one register that does one call at a time.

The search is Wing and Gong's: put the calls in an order that respects real time (a call that ended before
another began comes first) in which each gives the answer that was seen. The set of calls already placed
and the state reached are remembered, so no such pair is searched twice (Lowe's addition); the set is an
integer with one bit a call.

A call whose answer never came may have had its effect at any time after it began, or never: its end is
infinite and it may be left out. Calls in a history of one register only; a history of many is checked
register by register, since linearizability is local.

Verdicts are three: valid, invalid, or unknown when the search is given up after `steps_max`
steps. Unknown is not valid.

Source: Wing and Gong 1993, Testing and Verifying Concurrent Objects; Lowe 2017, Testing for Linearizability.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

STEPS_MAX = 400_000

StateT = TypeVar("StateT")
CallT = TypeVar("CallT")

PENDING_S = math.inf
"""The end of a call whose answer never came."""


class SearchVerdict(StrEnum):
    """What a checker says."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Interval(Generic[CallT]):
    """One call: the times of its request and answer, and the contents of both."""

    began_s: float
    ended_s: float
    call: CallT

    @property
    def is_pending(self) -> bool:
        """Say whether its answer never came."""
        return self.ended_s == PENDING_S


@dataclass(frozen=True, slots=True)
class SearchResult(Generic[CallT]):
    """A verdict and, for an invalid history, where the search got stuck.

    Attributes:
        stuck: the calls of which none could come next after the longest order that was found.
        placed: how many calls that order has.
    """

    verdict: SearchVerdict
    stuck: tuple[Interval[CallT], ...] = ()
    placed: int = 0
    steps: int = 0


@dataclass(slots=True)
class _Frame:
    """A node of the search: the calls placed so far, the state, and the candidates not yet tried."""

    placed: int
    state: object
    candidates: list[int] = field(default_factory=list)


def check(
    history: Sequence[Interval[CallT]],
    initial: StateT,
    step: Callable[[StateT, CallT], StateT | None],
    steps_max: int = STEPS_MAX,
) -> SearchResult[CallT]:
    """Search for an order.

    Args:
        history: the calls, in any order.
        initial: the register's state before all of them; must be hashable, as all states.
        step: the state after a call, None if the call cannot give its answer in that state.
        steps_max: placements tried before the search is given up.
    """
    calls = sorted(history, key=lambda one: (one.began_s, one.ended_s))
    needed = _bits(index for index, one in enumerate(calls) if not one.is_pending)
    stack = [_Frame(0, initial, _candidates(calls, 0))]
    seen = {(0, initial)}
    best: tuple[int, list[int]] = (-1, [])
    steps = 0
    while stack:
        frame = stack[-1]
        if frame.placed & needed == needed:
            return SearchResult(SearchVerdict.VALID, steps=steps)
        if not frame.candidates:
            stack.pop()
            continue
        index = frame.candidates.pop(0)
        steps += 1
        if steps > steps_max:
            return SearchResult(SearchVerdict.UNKNOWN, steps=steps)
        state = step(frame.state, calls[index].call)  # type: ignore[arg-type] # frames hold what `step` gave
        placed = frame.placed | (1 << index)
        if state is None or (placed, state) in seen:
            continue
        seen.add((placed, state))
        candidates = _candidates(calls, placed)
        count = (placed & needed).bit_count()
        if count > best[0]:
            best = (count, list(candidates))
        stack.append(_Frame(placed, state, candidates))
    stuck = best[1] or _candidates(calls, 0)
    return SearchResult(SearchVerdict.INVALID, tuple(calls[index] for index in stuck), max(best[0], 0), steps)


def _candidates(calls: Sequence[Interval[CallT]], placed: int) -> list[int]:
    """Return which calls may come next: those that began before every call not yet placed had ended."""
    found: list[int] = []
    first_end_s = PENDING_S
    for index in range((~placed & (placed + 1)).bit_length() - 1, len(calls)):
        one = calls[index]
        if one.began_s > first_end_s:
            break
        if not placed >> index & 1:
            found.append(index)
            first_end_s = min(first_end_s, one.ended_s)
    # Why pending ones last: mostly they had no effect, or only later.
    found = [index for index in found if calls[index].began_s <= first_end_s]
    return sorted(found, key=lambda index: calls[index].ended_s)


def _bits(indexes: object) -> int:
    result = 0
    for index in indexes:  # type: ignore[attr-defined] # any iterable of ints
        result |= 1 << index
    return result
