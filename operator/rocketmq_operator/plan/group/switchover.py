"""A switchover that a person asks for, by an annotation of the group.

The annotation names the master epoch of the request, and the wanted master if that matters: `7`, or
`7:orders-1`. The requested change ends its effect, because it changes the epoch. So nothing has to be
removed, a second look after a crash does not switch a second time, and a failover that comes first answers it
too.

The operator deletes the old master's pod, and its companion decides how the broker ends (`rolling`): clients
would keep their connections to a living broker that refuses them. If the annotation names one of several
brokers, the operator designates that broker instead, and the old master stays as a slave.
"""

import re
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.api.names import SWITCHOVER_ANNOTATION
from rocketmq_operator.plan.common.actions import NO_STEPS, ResourcePlan, Wait
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.group.rolling import hand_over, restart_master, successors

_ASKED: Final = re.compile(r"([0-9]{1,9})(?::([a-z0-9]([-a-z0-9]*[a-z0-9])?))?")


@dataclass(frozen=True, slots=True)
class SwitchoverRequest:
    """A request to move from the master of `epoch` to `to`, or to the best candidate if that is empty."""

    epoch: int
    to: str = ""

    def __str__(self) -> str:
        """Return the annotation's value."""
        return f"{self.epoch}:{self.to}" if self.to else str(self.epoch)


def parse_switchover_request(value: str) -> SwitchoverRequest | None:
    """Read the annotation's value; None if it is not of its form."""
    match = _ASKED.fullmatch(value)
    return SwitchoverRequest(int(match[1]), match[2] or "") if match else None


def switchover(observed: ObservedGroup) -> ResourcePlan:
    """Return the requested switchover.

    The plan is empty without a request, or if the master has changed already.
    """
    value = observed.annotations.get(SWITCHOVER_ANNOTATION)
    if value is None or observed.group is None or not observed.master:
        return NO_STEPS
    request = parse_switchover_request(value)
    if request is None:
        problem = (
            f"annotation {SWITCHOVER_ANNOTATION} is {value[:80]!r}: it must be <epoch> or <epoch>:<member>"
        )
        return ResourcePlan((), Wait("SwitchoverRefused", problem))
    if request.epoch != observed.group.master_epoch or request.to == observed.master:
        return NO_STEPS
    pod = observed.pods.get(observed.master)
    others = [name for name, _ in successors(observed)]
    if pod is not None and (not request.to or others == [request.to]):
        return restart_master(observed, pod, "asked for")
    return hand_over(observed, "asked for", to=request.to)
