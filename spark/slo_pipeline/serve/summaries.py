"""Read a `report.json`: what the list of reports needs of it, checked field by field.

Problem: one file that another version, another tool or a full disk left behind must not take the list of all
reports down. Shape: `parse` returns typed values or raises `SummaryError` with the field and its value. A
failover that cannot be used is left out. Fields that older reports lack are optional. Never: a value is
repaired or guessed.
"""

from dataclasses import dataclass
from typing import Any, Final

from controller_core import bounded_json
from slo_pipeline.reports.values.file_names import is_segment

# What Python's calendar can show: the last microsecond of the year 9999.
US_MAX: Final = 253_402_300_799_999_999
TEXT_CHARACTERS_MAX: Final = 2_000


class SummaryError(ValueError):
    """The file is not a report's summary; one line that names the field and its value."""


@dataclass(frozen=True, slots=True)
class MasterChange:
    """One change of master, as the summary tells it."""

    failover_id: str
    page: str
    heading: str
    elected_us: int
    write_gap_ms: float | None
    bad_s: int
    lost: int | None
    planned: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """What the list shows of a report; `lists` are the names of its files of long tables."""

    title: str
    start_us: int
    end_us: int
    verdict: str
    good: bool
    state: str
    measured: str
    budget_left: float | None
    budget_of: str
    failovers: tuple[MasterChange, ...]
    lists: frozenset[str]


def parse(raw: bytes) -> Summary:
    """Return a summary's values.

    Raises:
        SummaryError: the text is not JSON, or a field is missing or of another kind.
    """
    try:
        found = bounded_json.decode(raw)
    except ValueError as error:
        raise SummaryError(f"not JSON: {error}") from error
    if not isinstance(found, dict):
        raise SummaryError(f"a JSON {type(found).__name__}, expected an object")
    changes = found.get("failovers")
    if not isinstance(changes, list):
        raise SummaryError(f"failovers: {_shown(changes)}, expected a list")
    lists = found.get("lists", [])
    return Summary(
        title=_text(found, "title"),
        start_us=_whole(found, "start_us"),
        end_us=_whole(found, "end_us"),
        verdict=_text(found, "verdict"),
        good=_flag(found, "good"),
        state=_text(found, "state", ""),
        measured=_text(found, "measured", ""),
        budget_left=_number(found.get("budget_left"), "budget_left"),
        budget_of=_text(found, "budget_of", ""),
        failovers=tuple(change for one in changes if (change := _change(one)) is not None),
        lists=frozenset(
            one
            for one in (lists if isinstance(lists, list) else [])
            if isinstance(one, str) and is_segment(one)
        ),
    )


def _change(found: object) -> MasterChange | None:
    """Return one change of master; None if a field is missing or of another kind."""
    if not isinstance(found, dict):
        return None
    try:
        page, lost = _text(found, "page"), found.get("lost_acknowledged")
        if not is_segment(page):
            return None
        return MasterChange(
            _text(found, "failover_id"),
            page,
            _text(found, "heading"),
            _whole(found, "elected_us"),
            _number(found.get("write_gap_ms"), "write_gap_ms"),
            _whole(found, "bad_s"),
            None if lost is None else _whole(found, "lost_acknowledged"),
            _text(found, "heading").startswith("Switchover"),
        )
    except SummaryError:
        return None


def _text(found: dict[str, Any], name: str, default: str | None = None) -> str:
    value = found.get(name, default)
    if not isinstance(value, str) or len(value) > TEXT_CHARACTERS_MAX:
        raise SummaryError(
            f"{name}: {_shown(value)}, expected a text of at most {TEXT_CHARACTERS_MAX} characters"
        )
    # Half a surrogate pair is valid JSON and cannot be sent as UTF-8.
    return value.encode("utf-8", "replace").decode()


def _whole(found: dict[str, Any], name: str) -> int:
    value = found.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= US_MAX:
        raise SummaryError(f"{name}: {_shown(value)}, expected a whole number from 0 to {US_MAX}")
    return value


def _flag(found: dict[str, Any], name: str) -> bool:
    value = found.get(name)
    if not isinstance(value, bool):
        raise SummaryError(f"{name}: {_shown(value)}, expected true or false")
    return value


def _number(value: object, name: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not -US_MAX <= value <= US_MAX:
        raise SummaryError(f"{name}: {_shown(value)}, expected a number or null")
    return value


def _shown(value: object) -> str:
    return repr(value)[:80]
