"""A node's clock that a test sets."""

from controller_core.server.clock import Clock


class SteppedClock(Clock):
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        super().__init__("unit")
        self.at_ms = 1_000

    def now_ms(self) -> int:
        """Return the time that the test has set."""
        return self.at_ms
