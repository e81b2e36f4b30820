"""Monotonic inside, UTC at the border."""

from slo_pipeline.shell.clock import AnchoredClock


class Clocks:
    """Both clocks of a machine, moved by hand."""

    def __init__(self) -> None:
        self.monotonic_ns = 5_000_000_000
        self.wall_ns = 1_763_710_000_000_000_000

    def advance(self, ns: int) -> None:
        """Let time pass."""
        self.monotonic_ns += ns
        self.wall_ns += ns

    def anchored(self) -> AnchoredClock:
        """Start a process that reads them."""
        return AnchoredClock(lambda: self.monotonic_ns, lambda: self.wall_ns)


def test_a_step_of_the_wall_clock_does_not_lengthen_an_operation() -> None:
    clocks = Clocks()
    clock = clocks.anchored()
    start_ns = clock.utc_ns()
    clocks.advance(1_000)
    clocks.wall_ns += 3_600_000_000_000
    assert clock.utc_ns() - start_ns == 1_000


def test_a_step_moves_the_anchor_only_when_asked_and_tells_how_far() -> None:
    clocks = Clocks()
    clock = clocks.anchored()
    clocks.wall_ns -= 2_000_000_000
    assert clock.resync() == -2_000_000_000
    assert clock.utc_ns() == clocks.wall_ns
    assert clock.resync() == 0


def test_slewing_does_not_move_the_anchor() -> None:
    clocks = Clocks()
    clock = clocks.anchored()
    clocks.wall_ns += 50_000_000
    assert clock.resync() == 0
