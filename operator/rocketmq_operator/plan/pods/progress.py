"""Say whether anything is left to do, and the one word that people see in `kubectl get`.

`Progressing` is False, `Settled`, only where all is as asked: no step, no wait, no member in trouble, no
field that somebody rewrites, and every other condition that the operator works for holds. Else its reason is
that of the first of these, in this order:

    the plan waits                      the reason of the wait; the message names causes of troubles too
    the plan has steps                  Applying
    a member is in trouble              the reason of the first that names a cause, else MemberNotReady
    somebody rewrites a field of ours   FieldRewritten
    a condition does not hold           that condition's reason
"""

from collections.abc import Iterable, Sequence
from typing import Final

from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.plan.common.actions import ResourcePlan, Wait
from rocketmq_operator.plan.common.shaping.shaped import REFUSED
from rocketmq_operator.plan.pods.health import needs_person
from rocketmq_operator.plan.pods.member_trouble import MemberTrouble, describe_troubles, with_cause

_NOT_OURS: Final = frozenset({"NotAsked", "NotCompared"})
"""Reasons of conditions that do not hold and need nothing."""
_OF_PODS: Final = frozenset(
    {"ControllersUnreachable", "MasterNotServing", "NoMaster", "NoNameServer", "NoQuorum", "TooFewInSync"}
)
"""Reasons of `Ready` that follow from pods: their cause tells people more."""


def progressing(
    plan: ResourcePlan, troubles: Sequence[MemberTrouble], findings: Iterable[Finding]
) -> Finding:
    """Return the finding for `Progressing`.

    Args:
        plan: the remaining work.
        troubles: of the members.
        findings: of the conditions that the operator works for.
    """
    if plan.wait is not None and plan.wait.reason == "Paused":
        return make_finding("Progressing", holds=False, reason="Paused", message=plan.wait.message)
    causes = with_cause(troubles)
    if plan.wait is not None:
        left = [one for one in causes if str(one.trouble) not in plan.wait.message]
        message = "; ".join(
            filter(None, (plan.wait.message, describe_troubles(left), _notes_text(plan.notes)))
        )
        return make_finding("Progressing", holds=True, reason=plan.wait.reason, message=message)
    if plan.steps:
        return make_finding("Progressing", holds=True, reason="Applying", message=str(plan.steps[0]))
    text = "; ".join(
        filter(None, (describe_troubles((*causes, *_others(troubles, causes))), _notes_text(plan.notes)))
    )
    if (reason := _first_reason(plan, troubles)) is not None:
        return make_finding("Progressing", holds=True, reason=reason, message=text)
    broken = next((one for one in findings if one.status != "True" and one.reason not in _NOT_OURS), None)
    if broken is not None:
        return make_finding("Progressing", holds=True, reason=broken.reason, message=broken.message)
    return make_finding("Progressing", holds=False, reason="Settled", message="nothing is left to do")


def with_causes(text: str, troubles: Iterable[MemberTrouble], members: Iterable[str] | None = None) -> str:
    """Return the text with the causes of members' troubles, of these members only if any are named."""
    causes = describe_troubles(with_cause(troubles, members))
    return f"{text}; {causes}" if causes else text


def reason_column(ready: Finding, plan: ResourcePlan, troubles: Sequence[MemberTrouble]) -> str:
    """Return the text of the column REASON: why the resource is not ready.

    If a pod is the cause or the resource is ready, it is the pod's trouble. A resource that is ready shows a
    refusal of its pods first.
    """
    if ready.status == "True" and plan.wait is not None and plan.wait.reason == REFUSED:
        return plan.wait.reason
    if ready.status == "True":
        return _first_reason(plan, [one for one in troubles if one.trouble.reason != "RollingOut"]) or ""
    causes = with_cause(troubles)
    return causes[0].trouble.reason if causes and ready.reason in _OF_PODS else ready.reason


def _first_reason(plan: ResourcePlan, troubles: Sequence[MemberTrouble]) -> str | None:
    """Return the reason of the worst deviation from the spec; deviations with a known cause come first."""
    worst_first: list[MemberTrouble | Wait] = [*with_cause(troubles), *plan.notes, *troubles]
    first = worst_first[0] if worst_first else None
    if first is None:
        return None
    return first.reason if isinstance(first, Wait) else first.trouble.reason


def _others(troubles: Iterable[MemberTrouble], named: Sequence[MemberTrouble]) -> list[MemberTrouble]:
    return [one for one in troubles if one not in named]


def _notes_text(notes: Iterable[Wait]) -> str:
    return "; ".join(note.message for note in notes)


def observed_generation(before: int, now: int, plan: ResourcePlan) -> int:
    """Return the generation that was acted on.

    It is the new one when nothing is left to write, or when a person must act.
    """
    is_stalled = plan.wait is not None and needs_person(plan.wait.reason)
    return before if plan.steps and not is_stalled else now


def paused_finding(*, paused: bool) -> Finding:
    """Return the finding for `Paused`."""
    text = "spec.paused is true: nothing is changed" if paused else ""
    return make_finding("Paused", holds=paused, reason="Asked" if paused else "NotAsked", message=text)
