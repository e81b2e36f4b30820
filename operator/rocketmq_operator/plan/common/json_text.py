"""JSON texts that another process wrote: an answer, an annotation, a pod's last words."""

import json
from typing import Any


def parse_json(text: bytes | bytearray | str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value of a JSON text.

    Raises:
        ValueError: it is not JSON, nested too deeply, or has a number of more than 4,300 digits.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error


def parse_json_object(text: bytes | bytearray | str) -> dict[str, Any]:
    """Return the object of a JSON text.

    Raises:
        ValueError: it is not JSON, nested too deeply, or another value than an object.
    """
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError(f"JSON of a {type(value).__name__} (expected an object)")  # noqa: TRY004 - the text is wrong, not the call
    return value
