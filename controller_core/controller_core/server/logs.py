"""Structured logs: one JSON object a line on standard error, through the standard library's logging.

Every line has `ts` (UTC, microseconds), `level`, `logger`, `message` and whatever the call bound with
`extra=bind(...)`; an exception becomes one `exception` field, so that a line is always one record. A text
that is too long is cut, because strangers send some of them. The cores log nothing; only shells do.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

_FIELDS_ATTRIBUTE = "rmqha_fields"
_EXCEPTION_CHARS_MAX = 8_000
_TEXT_CHARS_MAX = 2_000
_NUMBERS = frozenset((int, bool, float))
_ENCODER = json.JSONEncoder(default=str, ensure_ascii=False)


def bind(**fields: object) -> dict[str, object]:
    """Return the `extra` argument of a logging call that adds `fields` to the line."""
    return {_FIELDS_ATTRIBUTE: fields}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON; `constant` fields (node, cluster) go into every line."""

    def __init__(self, constant: dict[str, object] | None = None) -> None:
        super().__init__()
        self._constant = dict(constant or {})

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without its end."""
        line: dict[str, object] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._constant,
        }
        fields = getattr(record, _FIELDS_ATTRIBUTE, None)
        if isinstance(fields, dict):
            line.update(fields)
        if record.exc_info is None and all(map(_is_short, line.values())):
            return _ENCODER.encode(line)  # Nearly every line: half the work of value by value.
        texts = {name: _encoded(value) for name, value in line.items()}
        if record.exc_info:
            texts["exception"] = _json(self.formatException(record.exc_info)[-_EXCEPTION_CHARS_MAX:])
        return "{" + ", ".join(f"{_json(name)}: {text}" for name, text in texts.items()) + "}"


def _is_short(value: object) -> bool:
    """Return whether a value is surely within the bound of a text."""
    if isinstance(value, str):
        return len(value) <= _TEXT_CHARS_MAX
    return value is None or type(value) in _NUMBERS


def _encoded(value: object) -> str:
    """Return a value's JSON; of a value that is too long, the JSON of its beginning and its length."""
    text = value if isinstance(value, str) else _json(value)
    if len(text) > _TEXT_CHARS_MAX:
        return _json(f"{text[:_TEXT_CHARS_MAX]}... ({len(text)} characters)")
    return _json(value) if isinstance(value, str) else text


def _json(value: object) -> str:
    return _ENCODER.encode(value)


def configure(level: str, stream: TextIO | None = None, **constant: object) -> None:
    """Send all logging of the process through one handler with the JSON formatter."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(constant))
    # What no line shows costs a third of a line's time to find out.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
