"""What simulated schedules raise: a broken promise, and the end of a machine's power."""


class SafetyViolation(AssertionError):
    """Something happened that must never happen."""


class PowerLossError(Exception):
    """The machine stopped at this step; nothing later happens."""
