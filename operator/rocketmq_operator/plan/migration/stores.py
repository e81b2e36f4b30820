"""Which part of each old store a migration keeps, and how the step that decides it is described.

Never here: a write. `steps` has the order of the steps.
"""

from rocketmq_operator.plan.migration.checks import is_equal
from rocketmq_operator.plan.migration.observed import ObservedMigration, OldBrokerKind, OldMember


def part_to_keep(observed: ObservedMigration, member: OldMember) -> str:
    """Return which part of a store to keep, as an argument of `ha-sidecar adopt`."""
    if observed.request.old_kind is OldBrokerKind.DLEDGER:
        return "metadata"
    is_kept = member is observed.first or (not observed.request.empty_slaves and is_equal(observed, member))
    return "keep" if is_kept else "empty"


def prepare_title(observed: ObservedMigration) -> str:
    """Describe the result for each store, and why; this step is irreversible."""
    texts = [_store_result(observed, member) for member in observed.members]
    return "; ".join(texts) + " (no way back from here)"


def _store_result(observed: ObservedMigration, member: OldMember) -> str:
    keep = (member.store or {}).get("kept") or part_to_keep(observed, member)
    if keep == "metadata":
        return f"empty the store of {member.pod} but for topics and groups"
    if keep == "keep":
        return f"keep the store of {member.pod} for {member.member}"
    if observed.request.empty_slaves:
        return f"empty the store of {member.pod}: {member.member} copies the master's log"
    if member.log is None:
        return f"keep the store of {member.pod} for {member.member} if it is equal, else empty it"
    return (
        f"empty the store of {member.pod}: {_difference(observed, member)}{member.member} copies the "
        "master's log"
    )


def _difference(observed: ObservedMigration, member: OldMember) -> str:
    texts = [_log_contents(one) for one in (member, observed.first)]
    return f"it holds {texts[0]}, the master {texts[1]}; "


def _log_contents(member: OldMember) -> str:
    log = member.log or {}
    return (
        f"{log.get('messages', 0):,} messages in [{log.get('min_offset', 0):,}, {log.get('max_offset', 0):,})"
    )
