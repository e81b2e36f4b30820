"""When the controllers declare the master of a group dead."""

from typing import Annotated, ClassVar

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel


class FailoverTiming(SpecModel):
    """When the controllers declare a silent master dead.

    They declare one whose connection ends dead at once.
    """

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="TimeoutTooShort",
            expression="self.heartbeatTimeoutMs >= 3 * self.heartbeatIntervalMs",
            message="'failover.heartbeatTimeoutMs is %d: it must be at least 3 * heartbeatIntervalMs = %d'"
            ".format([self.heartbeatTimeoutMs, 3 * self.heartbeatIntervalMs])",
            holds=lambda spec: spec.heartbeat_timeout_ms >= 3 * spec.heartbeat_interval_ms,
            problem=lambda spec: (
                f"failover.heartbeatTimeoutMs is {spec.heartbeat_timeout_ms}: it must be at least "
                f"3 * heartbeatIntervalMs = {3 * spec.heartbeat_interval_ms}"
            ),
        ),
    )

    heartbeat_interval_ms: Annotated[int, Field(ge=100, le=10_000)] = 200
    """Between two heartbeats to each controller, in milliseconds."""
    heartbeat_timeout_ms: Annotated[int, Field(ge=500, le=60_000)] = 1_500
    """Silence after which the controllers declare a master dead, in milliseconds. A shorter time fails over
    sooner, and for shorter disturbances. A broker that started less than 20 s ago may be silent for 5 s."""
