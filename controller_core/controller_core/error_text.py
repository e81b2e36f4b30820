"""What to write of an error that a person reads. Errors of asyncio often lack a text.

`str(TimeoutError())` is empty, so that a line ended with a colon and without a reason. `error or "time-out"`
does not help: an exception is always true.

Never here: the choice of an error.
"""


def error_text(error: BaseException) -> str:
    """Return an error's own text, or what its class says if that is empty."""
    if text := str(error):
        return text
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
