"""A violation of a model as one line: field, value, fault."""

from pydantic import BaseModel, ValidationError


def first_violation(error: ValidationError) -> str:
    """Return the first violation: the field's path, its value where that is short, and the fault."""
    found = error.errors()[0]
    where = ""
    for part in found["loc"]:
        where += f"[{part}]" if isinstance(part, int) else f"{'.' if where else ''}{part}"
    message = found["msg"].removeprefix("Value error, ")
    given = found["input"]
    if isinstance(given, dict | list | tuple | BaseModel):
        return f"{where}: {message}" if where else message
    return f"{where}: {given!r}: {message}"
