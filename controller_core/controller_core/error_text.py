"""What to write of an error that a person reads. An error of asyncio often has no text of its own.

`str(TimeoutError())` is empty, so that a line ended with a colon and without a reason. `error or "time-out"`
does not help: an exception is always true.

Never here: which error it is to be.
"""


def error_text(error: BaseException) -> str:
    """Return an error's own text, or what its class says if it has none."""
    if text := str(error):
        return text
    return "no answer in time" if isinstance(error, TimeoutError) else type(error).__name__
