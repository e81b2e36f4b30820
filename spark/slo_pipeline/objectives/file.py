"""Read an objectives file.

Problem: who mistypes an objective wants to know which field, not to read a library's traceback.
Shape: one function; every violation of `objectives.model` becomes one line with file, field, value and what is wrong.
Never: more than one file, no includes, no templates.
"""

from pathlib import Path
from typing import Final

import yaml
from pydantic import BaseModel, ValidationError

from slo_pipeline.objectives.model import Objectives, ObjectivesError

FILE_BYTES_MAX: Final = 1_000_000
DEFAULT_FILE: Final = Path(__file__).with_name("default.yaml")


def load(path: Path | None = None) -> Objectives:
    """Read an objectives file; the project's own if none is named.

    Raises:
        ObjectivesError: one line: file, field, value, what is wrong.
        OSError: the file cannot be read.
    """
    chosen = path or DEFAULT_FILE
    with chosen.open("rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise ObjectivesError(f"{chosen}: larger than {FILE_BYTES_MAX} bytes")
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ObjectivesError(f"{chosen}: no YAML: {' '.join(str(error).split())}") from None
    try:
        return Objectives.model_validate(found)
    except ValidationError as error:
        raise ObjectivesError(f"{chosen}: {_first(error)}") from None


def _first(error: ValidationError) -> str:
    """Say the first violation: where, what stands there, what is wrong."""
    found = error.errors()[0]
    where = ""
    for part in found["loc"]:
        where += f"[{part}]" if isinstance(part, int) else f"{'.' if where else ''}{part}"
    message = found["msg"].removeprefix("Value error, ")
    given = found["input"]
    if isinstance(given, dict | list | tuple | BaseModel):
        return f"{where}: {message}" if where else message
    return f"{where}: {given!r}: {message}"
