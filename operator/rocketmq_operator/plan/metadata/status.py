"""What the operator says of a Topic, a ConsumerGroup or a User.

The status says whether each broker group has it as the spec says, and what differs.

`Ready` means that every chosen broker group has it so. `InSync` is about drift alone and is Unknown while a
master does not answer. `RightsEnforced`, of a User, is False while brokers do not look at rights.
"""

from collections.abc import Sequence

from rocketmq_operator.api.access.user import SecretBinding, UserSpec, UserStatus, UserType
from rocketmq_operator.api.conditions import MESSAGE_LENGTH_MAX, Finding, make_finding, merge_findings
from rocketmq_operator.api.metadata import BROKER_GROUPS_MAX, GroupMetadataStatus, GroupState, MetadataStatus
from rocketmq_operator.plan.common.actions import ResourcePlan, WriteMetadata
from rocketmq_operator.plan.metadata.observed import GroupMetadata, ObservedMetadata
from rocketmq_operator.plan.pods.health import health_findings, needs_person


def metadata_status(
    observed: ObservedMetadata, plan: ResourcePlan, corrected: Sequence[WriteMetadata] = ()
) -> MetadataStatus:
    """Return the status; `corrected` is what drift was written over in this pass."""
    rows = tuple(_row(observed, one) for one in observed.groups)[:BROKER_GROUPS_MAX]
    is_ready = _ready(plan, rows)
    findings = [
        *(is_ready, _in_sync(rows), _name_unique(observed)),
        *_rights_enforced(observed),
        *health_findings(is_ready),
    ]
    conditions = merge_findings(
        observed.status.conditions, findings, generation=observed.generation, now=observed.now
    )
    ready = conditions[0]
    applied = sum(row.state is GroupState.APPLIED for row in rows)
    settled = not plan.steps and plan.wait is None
    status = MetadataStatus(
        observed_generation=observed.generation
        if settled or (plan.wait is not None and needs_person(plan.wait.reason))
        else observed.status.observed_generation,
        applied_generation=observed.generation if settled else observed.applied_generation,
        conditions=conditions,
        name=observed.name,
        in_sync=f"{applied}/{len(rows)}" if rows else "",
        groups=rows,
        last_corrected=observed.now if corrected else observed.status.last_corrected,
        last_correction=correction(corrected) if corrected else observed.status.last_correction,
        reason="" if ready.status == "True" else ready.reason,
    )
    if not isinstance(observed.spec, UserSpec):
        return status
    made = observed.account.binding if observed.account.secret is None else ""
    binding = SecretBinding(name=made) if made else None
    return UserStatus(**dict(status), binding=binding)


def correction(corrected: Sequence[WriteMetadata]) -> str:
    """Say what drift was written over."""
    return ". ".join(f"{one.group}: {one.why}" for one in corrected)[:MESSAGE_LENGTH_MAX]


def _row(observed: ObservedMetadata, one: GroupMetadata) -> GroupMetadataStatus:
    if not one.exists:
        return GroupMetadataStatus(group=one.group, state=GroupState.UNKNOWN_GROUP)
    if one.problem:
        return GroupMetadataStatus(
            group=one.group, state=GroupState.UNREACHABLE, message=one.problem[:MESSAGE_LENGTH_MAX]
        )
    if any(copy.config is None for copy in one.copies):
        return GroupMetadataStatus(group=one.group, state=GroupState.MISSING)
    # A slave has what its master has, or it will have in a moment: the first difference tells enough.
    drift = next(filter(None, (observed.differences(copy.config or {}) for copy in one.copies)), ())
    state = GroupState.DRIFTED if drift else GroupState.APPLIED
    return GroupMetadataStatus(group=one.group, state=state, differences=drift)


def _ready(plan: ResourcePlan, rows: Sequence[GroupMetadataStatus]) -> Finding:
    if plan.wait is not None:
        return make_finding("Ready", holds=False, reason=plan.wait.reason, message=plan.wait.message)
    if plan.steps:
        return make_finding("Ready", holds=False, reason="Applying", message=str(plan.steps[0]))
    if drifted := _groups_text(rows, GroupState.DRIFTED):
        return make_finding("Ready", holds=False, reason="Drifted", message=drifted)
    return make_finding("Ready", holds=True, reason="Applied", message="every broker group has it as asked")


def _in_sync(rows: Sequence[GroupMetadataStatus]) -> Finding:
    if drifted := _groups_text(rows, GroupState.DRIFTED):
        return make_finding("InSync", holds=False, reason="Drifted", message=drifted)
    if missing := _groups_text(rows, GroupState.MISSING):
        return make_finding("InSync", holds=False, reason="Missing", message=missing)
    if not rows or any(row.state is not GroupState.APPLIED for row in rows):
        return make_finding(
            "InSync", holds=None, reason="NotCompared", message="some broker groups were not compared"
        )
    return make_finding("InSync", holds=True, reason="Applied", message="no broker group has it otherwise")


def _name_unique(observed: ObservedMetadata) -> Finding:
    if observed.older_owner:
        text = f"{observed.owner.kind} {observed.older_owner} is older and has the name {observed.name} too"
        return make_finding("Unrivalled", holds=False, reason="Conflict", message=text)
    return make_finding("Unrivalled", holds=True, reason="Alone", message="")


def _rights_enforced(observed: ObservedMetadata) -> tuple[Finding, ...]:
    """Return whether brokers look at the rights of a User; nothing of other kinds."""
    if not isinstance(observed.spec, UserSpec):
        return ()
    if observed.account.has_rights is None:
        return (make_finding("RightsEnforced", holds=None, reason="NotCompared"),)
    if not observed.account.has_rights:
        text = f"cluster {observed.spec.cluster} has authorization.type None: every user may do everything"
        return (make_finding("RightsEnforced", holds=False, reason="AuthorizationOff", message=text),)
    reason = "SuperUser" if observed.spec.type is UserType.SUPER else "Enforced"
    return (make_finding("RightsEnforced", holds=True, reason=reason),)


def _groups_text(rows: Sequence[GroupMetadataStatus], state: GroupState) -> str:
    return "; ".join(
        f"{row.group}"
        + "".join(
            f", {one.field} is {one.found or 'absent'}, not {one.wanted or 'absent'}"
            for one in row.differences
        )
        for row in rows
        if row.state is state
    )
