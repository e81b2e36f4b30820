"""Migrate a broker group that predates controller mode to a BrokerGroup: the steps, their completion conditions and obstacles.

A migration is a table of steps in order; the first incomplete step is the next. The migration stores no progress: each
step derives its completion from the observation, so a later call, after a crash or after a week, continues.

    step      done when                                        possible obstacles
    close     no old broker announces that it takes messages   the old brokers, the request
    stop      no old broker runs                               a slave that lacks something; DLedger: messages unread
    compare   each volume records the contents of its log      -
    prepare   each volume records the kept part of its store    a master's log that is damaged or became shorter
    hand      the old master's volume is bound for member 0    -
    create    the BrokerGroup is there                         objects of its name
    lead      member 0 is master                               another one is
    join      the other volumes are bound too                  -
    ready     the BrokerGroup is Ready                         -
    prove     that stands on the BrokerGroup                   less there than there was

**Order of start.** Controllers give the first mastership of a group to the first broker that asks, and a slave truncates its log to that of its
master. Started together, a slave with a longer or an empty log might win, and the master's messages would be
lost. So the others' volumes stay unbound until member 0, which has the old master's volume, is master: their claims
exist but cannot bind, so their pods wait, and Kubernetes creates no empty volume for them. For the same reason the
BrokerGroup must ask for as many brokers as there are volumes.

**Unequal logs.** The migration keeps the master's log. It empties a slave whose log differs in records or end; the slave then
copies from its master. Never the other way round: no broker acknowledged the records that a slave has beyond its master.

**The way back** leads from anywhere before `prepare`: writes are allowed, pods started again. From there on stores are ours.

**No volume is ever without a name.** A volume whose claim is gone is one that provisioners delete, some whatever its policy
says. So it gets the policy Retain and the name of its next claim while the old claim is still there, in one write; then the old
claim goes. Of the two, only the volume's word counts.

Source: RocketMQ docs/cn/controller/deploy.md, upgrade; Kubernetes' pv_controller.go, syncUnboundClaim and syncBoundClaim.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.migration import pods as migration_pods
from rocketmq_operator.plan.migration.checks import (
    at_old_brokers,
    before_preparing,
    before_proof,
    in_the_way,
    is_equal,
    unwritten,
)
from rocketmq_operator.plan.migration.observed import (
    LOG_ANNOTATION,
    MIGRATED_ANNOTATION,
    STORE_ANNOTATION,
    Course,
    Holder,
    ObservedMigration,
    OldMember,
)
from rocketmq_operator.plan.migration.writes import (
    Create,
    Task,
    Write,
    annotated,
    claim_writes,
    holding,
    joining,
    noting,
    scaled,
)


@dataclass(frozen=True, slots=True)
class Turn:
    """What a step that is not done does now: at most one of these is there.

    Attributes:
        way: the obstacle that does not pass by itself.
        wait: the reason to wait.
        writes: the next writes, in this order.
    """

    way: str = ""
    wait: str = ""
    writes: tuple[Write, ...] = ()


@dataclass(frozen=True, slots=True)
class MigrationStep:
    """One row of the table."""

    name: str
    title: Callable[[ObservedMigration], str]
    is_done: Callable[[ObservedMigration], bool]
    turn: Callable[[ObservedMigration], Turn]


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """Where a migration stands.

    Attributes:
        steps: name, title and whether it is done, of each.
        step: the next one; empty when all are done.
        turn: what it does now.
    """

    steps: tuple[tuple[str, str, bool], ...]
    step: str = ""
    title: str = ""
    turn: Turn = Turn()


def migration_plan(observed: ObservedMigration) -> MigrationPlan:
    """Return the steps, the next one, and what it does now."""
    table = [step for step in STEPS if _belongs(step, observed)]
    following = next(
        (step for step in table if not observed.is_migrated and not step.is_done(observed)), None
    )
    before = table if following is None else table[: table.index(following)]
    steps = tuple((step.name, step.title(observed), step in before) for step in table)
    if following is None:
        return MigrationPlan(steps)
    turn = Turn(way) if (way := _strayed(observed)) else following.turn(observed)
    return MigrationPlan(steps, following.name, following.title(observed), turn)


def _strayed(observed: ObservedMigration) -> str:
    """Say which volume of a stopped broker is gone, or somebody else's."""
    for member in observed.members:
        if member.note is not None and member.live is None and member.holder is Holder.OTHER:
            return f"volume {member.note.volume} of {member.pod} is gone, or of another claim than {member.note.claim}"
    return ""


def _belongs(step: MigrationStep, observed: ObservedMigration) -> bool:
    return step.name != "compare" or observed.wish.course is Course.MASTER_SLAVE


def _pods(members: tuple[OldMember, ...]) -> str:
    return ", ".join(member.pod for member in members)


def _addresses(observed: ObservedMigration) -> list[str]:
    return [f"{one.address}:{observed.wish.port}" for one in observed.asked if one.address]


def _is_closed(observed: ObservedMigration) -> bool:
    if observed.first.note is not None and not observed.first.runs:
        return True
    running = [member for member in observed.asked if member.runs]
    return bool(running) and all(
        member.said is not None and not member.said.takes_writes for member in running
    )


def _close(observed: ObservedMigration) -> Turn:
    if way := in_the_way(observed) or at_old_brokers(observed):
        return Turn(way)
    body = migration_pods.permission(observed, "read", _addresses(observed))
    return Turn(writes=(Task(body, "forbid writes"),))


def _is_stopped(observed: ObservedMigration) -> bool:
    if any(member.holder in {Holder.HELD, Holder.NEW} for member in observed.members):
        return True
    return all(
        member.live is None and member.note is not None and not member.is_wanted
        for member in observed.members
    )


def _stop(observed: ObservedMigration) -> Turn:
    if way := in_the_way(observed):
        return Turn(way)
    first = observed.first
    if first.runs:
        if way := at_old_brokers(observed):
            return Turn(way)
        if wait := unwritten(observed):
            return Turn(wait=wait)
        stale = [
            annotated("PersistentVolume", member.volume, LOG_ANNOTATION, None, "forget an older look at it")
            for member in observed.members
            if member.log is not None
        ]
        return Turn(writes=(*stale, *noting(observed), *scaled(observed, (first,), 0)))
    if unknown := [member for member in observed.members if member.note is None]:
        return Turn(
            f"{unknown[0].pod} does not run, and nothing was noted of it while it did: start it again"
        )
    if first.live is not None:
        return Turn(wait=f"{first.pod} has not gone yet")
    if left := [member for member in observed.members if member.is_wanted]:
        return Turn(writes=scaled(observed, tuple(left), 0))
    return Turn(
        wait=f"{_pods(tuple(one for one in observed.members if one.live is not None))} has not gone yet"
    )


def _is_compared(observed: ObservedMigration) -> bool:
    return all(
        member.log is not None or member.store is not None or member.holder is not Holder.OLD
        for member in observed.asked
    )


def _compare(observed: ObservedMigration) -> Turn:
    writes = []
    for member in observed.asked:
        note = member.note
        if note is not None and member.log is None:
            body = migration_pods.verify(observed, member, note)
            writes.append(
                Task(body, f"look at every record of {member.pod}", note.volume, LOG_ANNOTATION, (0, 1))
            )
    return Turn(writes=tuple(writes))


def keeping(observed: ObservedMigration, member: OldMember) -> str:
    """Return which part of a store to keep, as an argument of `ha-sidecar adopt`."""
    if observed.wish.course is Course.DLEDGER:
        return "metadata"
    is_kept = member is observed.first or (not observed.wish.empty_slaves and is_equal(observed, member))
    return "keep" if is_kept else "empty"


def _is_prepared(observed: ObservedMigration) -> bool:
    return all(member.store is not None or member.holder is Holder.NEW for member in observed.members)


def _prepare(observed: ObservedMigration) -> Turn:
    if way := before_preparing(observed):
        return Turn(way)
    writes = []
    for member in observed.members:
        note = member.note
        if note is not None and member.store is None and member.holder is Holder.OLD:
            keep = keeping(observed, member)
            body = migration_pods.adopt(observed, member, note, keep)
            writes.append(Task(body, f"{keep} the store of {member.pod}", note.volume, STORE_ANNOTATION))
    return Turn(writes=tuple(writes))


def _prepare_title(observed: ObservedMigration) -> str:
    """Describe the result for each store, and why; this step is irreversible."""
    texts = [_becomes(observed, member) for member in observed.members]
    return "; ".join(texts) + " (no way back from here)"


def _becomes(observed: ObservedMigration, member: OldMember) -> str:
    keep = (member.store or {}).get("kept") or keeping(observed, member)
    if keep == "metadata":
        return f"empty the store of {member.pod} but for topics and groups"
    if keep == "keep":
        return f"keep the store of {member.pod} for {member.member}"
    if observed.wish.empty_slaves:
        return f"empty the store of {member.pod}: {member.member} copies the master's log"
    if member.log is None:
        return f"keep the store of {member.pod} for {member.member} if it is equal, else empty it"
    return f"empty the store of {member.pod}: {_difference(observed, member)}{member.member} copies the master's log"


def _difference(observed: ObservedMigration, member: OldMember) -> str:
    texts = [_held(one) for one in (member, observed.first)]
    return f"it holds {texts[0]}, the master {texts[1]}; "


def _held(member: OldMember) -> str:
    log = member.log or {}
    return (
        f"{log.get('messages', 0):,} messages in [{log.get('min_offset', 0):,}, {log.get('max_offset', 0):,})"
    )


def _is_handed(observed: ObservedMigration) -> bool:
    others = all(
        member.holder in {Holder.HELD, Holder.NEW} and member.new_claim is not None
        for member in observed.others
    )
    return observed.first.has_joined and others and all(one.old_claim is None for one in observed.members)


def _hand(observed: ObservedMigration) -> Turn:
    writes: list[Write] = []
    for member in observed.members:
        writes += holding(member)
    if writes:
        return Turn(writes=tuple(writes))
    for member in observed.members:
        writes += claim_writes(observed, member)
    if writes:
        return Turn(writes=tuple(writes))
    if left := [member for member in observed.members if member.old_claim is not None]:
        return Turn(wait=f"the claim of {_pods(tuple(left))} has not gone yet")
    return _joined(observed.members[:1])


def _joined(members: tuple[OldMember, ...]) -> Turn:
    """Return what binds volumes to their new claims, and puts their policies back then."""
    writes: list[Write] = []
    for member in members:
        writes += joining(member)
    unbound = [names.claim(member.member) for member in members if not member.has_joined]
    return Turn(writes=tuple(writes)) if writes else Turn(wait=f"{', '.join(unbound)} is not bound yet")


def _create(observed: ObservedMigration) -> Turn:
    if way := in_the_way(observed):
        return Turn(way)
    return Turn(writes=(Create(observed.wish.manifest, "as it is asked for"),))


def _leads(observed: ObservedMigration) -> bool:
    if any(member.holder is Holder.NEW for member in observed.others):
        return True
    return observed.status.master.name == observed.first.member


def _lead(observed: ObservedMigration) -> Turn:
    if (master := observed.status.master.name) and master != observed.first.member:
        return Turn(f"{master} is master, and not {observed.first.member}, which has the old master's volume")
    return Turn(wait=_operator_says(observed) or f"{observed.first.member} is not master yet")


def _operator_says(observed: ObservedMigration) -> str:
    waiting = observed.status.plan.waiting_for
    return f"the operator waits: {waiting}" if waiting else ""


def _is_ready(observed: ObservedMigration) -> bool:
    ready = next((one for one in observed.status.conditions if one.type == "Ready"), None)
    return ready is not None and ready.status == "True"


def _prove(observed: ObservedMigration) -> Turn:
    said = observed.new_said
    if said is None:
        return Turn(wait=f"{observed.first.member} has not answered yet")
    if way := before_proof(observed, said):
        return Turn(way)
    text = f"{said.topics} topics, {said.groups} groups, {said.offsets} offsets, log [{said.min_offset}, {said.max_offset})"
    return Turn(
        writes=(annotated("BrokerGroup", observed.group, MIGRATED_ANNOTATION, text, f"it has {text}"),)
    )


STEPS: Final[tuple[MigrationStep, ...]] = (
    MigrationStep("close", lambda seen: f"forbid writes to {_pods(seen.asked)}", _is_closed, _close),
    MigrationStep(
        "stop",
        lambda seen: (
            f"stop {_pods(seen.members[:1])}" + (f", then {_pods(seen.others)}" if seen.others else "")
        ),
        _is_stopped,
        _stop,
    ),
    MigrationStep(
        "compare", lambda seen: f"check every record of {_pods(seen.asked)}", _is_compared, _compare
    ),
    MigrationStep("prepare", _prepare_title, _is_prepared, _prepare),
    MigrationStep(
        "hand",
        lambda seen: (
            f"give the volume of {seen.first.pod} to {seen.first.member}"
            + (", and keep the others back until that is master" if seen.others else "")
        ),
        _is_handed,
        _hand,
    ),
    MigrationStep(
        "create",
        lambda seen: f"create BrokerGroup {seen.wish.group}",
        lambda seen: seen.group is not None,
        _create,
    ),
    MigrationStep("lead", lambda seen: f"wait until {seen.first.member} is master", _leads, _lead),
    MigrationStep(
        "join",
        lambda seen: (
            "; ".join(f"give the volume of {one.pod} to {one.member}" for one in seen.others)
            or "there are no others"
        ),
        lambda seen: all(one.has_joined for one in seen.others),
        lambda seen: _joined(seen.others),
    ),
    MigrationStep(
        "ready",
        lambda seen: f"wait until {seen.wish.group} is Ready",
        _is_ready,
        lambda seen: Turn(wait=_operator_says(seen) or f"{seen.wish.group} is not Ready yet"),
    ),
    MigrationStep(
        "prove",
        lambda seen: f"check that {seen.first.member} has all that {seen.first.pod} had",
        lambda seen: seen.is_migrated,
        _prove,
    ),
)
