"""Read an objectives file.

Problem: who mistypes an objective wants to know which field, not to read a library's traceback. Shape: one
function; every violation of `objectives.model` becomes one line with file, field, value and fault. A file is
one document of ours, or OpenSLO v1 documents (`openslo_reader`). Never: more than one file, no includes, no
templates.
"""

from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError

from slo_pipeline.objectives import openslo_reader
from slo_pipeline.objectives.model import Objectives, ObjectivesError
from slo_pipeline.objectives.violations import first_violation

FILE_BYTES_MAX: Final = 1_000_000
DEFAULT_FILE: Final = Path(__file__).with_name("default.yaml")


def load(path: Path | None = None) -> Objectives:
    """Read an objectives file; the project's own if none is named.

    Raises:
        ObjectivesError: one line: file, field, value, fault.
        OSError: the file cannot be read.
    """
    chosen = path or DEFAULT_FILE
    with chosen.open("rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise ObjectivesError(f"{chosen}: larger than {FILE_BYTES_MAX} bytes")
    try:
        found = [document for document in yaml.safe_load_all(text) if document is not None]
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ObjectivesError(f"{chosen}: invalid YAML: {' '.join(str(error).split())}") from None
    try:
        return _objectives(found)
    except ValidationError as error:
        raise ObjectivesError(f"{chosen}: {first_violation(error)}") from None
    except ObjectivesError as error:
        raise ObjectivesError(f"{chosen}: {error}") from None


def _objectives(found: list[Any]) -> Objectives:
    if any(openslo_reader.is_openslo(document) for document in found):
        return openslo_reader.objectives(found)
    if len(found) > 1:
        raise ObjectivesError(
            f"{len(found)} YAML documents (expected one, or OpenSLO documents with apiVersion: openslo/v1)"
        )
    return Objectives.model_validate(found[0] if found else None)
