"""The rotation of the super user that signs for operator and members, without a refused request.

A broker holds one password for each user. So another user with a password of its own takes the place of the
present one, and brokers know both for a while. The Secret is the only memory, so each step may be the last
one before a crash:

    Secret has                     the brokers                   step
    one user                                                     nothing, until a request or its age: add
                                                                 the next user to the Secret
    the next user too              one lacks it                  give it to that broker
                                   all have it                   the next user signs, the present one becomes
                                                                 the former
    the former user too            one signs as the former, or   wait: groups and the cluster replace the pods
                                   a pod is older                that read the Secret at their start
                                   all sign as the present one,  wait: `keepFormerMinutes` for programs that
                                   for a short time              follow the files
                                   one knows the former          delete it there, at masters first
                                   none knows the former         take it out of the Secret

Every step but the first waits until all brokers answer: one that is away would not know the next user, and
would keep the former. A broker that comes back later makes the user that signs when it starts, and its
companion copies the other one from its master before the broker is ready.

Why masters first: a companion copies to its slave what the master has. Why the operator asks brokers as whom
they sign: a pod of the new revision may have started with old files.

A request names the user to replace. So it is carried out once, and nothing has to be removed afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from controller_core.access.signing import Credentials
from controller_core.access.users import ENABLED, SUPER
from rocketmq_operator.api.cluster import Authentication
from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.api.names import USER_KIND
from rocketmq_operator.plan.common.actions import (
    NO_STEPS,
    DeleteMetadata,
    ResourcePlan,
    RotateCredentials,
    Wait,
    WriteMetadata,
    with_digest,
)
from rocketmq_operator.plan.common.objects import Json, Live, Owner
from rocketmq_operator.plan.credentials.inner_users import (
    InnerUsers,
    credentials_secret,
    is_own,
    mark_of,
    next_username,
    signer_mark,
)

CONDITION: Final = "CredentialsCurrent"
PREPARED: Final = "CredentialsPrepared"
SWITCHED: Final = "CredentialsSwitched"
ROTATED: Final = "CredentialsRotated"


@dataclass(frozen=True, slots=True)
class BrokerUsers:
    """What one broker says of the super users.

    Attributes:
        group: its BrokerGroup.
        address: host:port.
        signs_as: the user with which it signs.
        next: its account of the next user; None if it has none.
        knows_former: whether it has the former user.
    """

    group: str
    address: str
    signs_as: str = ""
    next: Json | None = field(default=None, repr=False)
    knows_former: bool = False


@dataclass(frozen=True, slots=True)
class ObservedRotation:
    """What the rotation of a cluster's super user depends on.

    Attributes:
        users: those of the Secret; None before there is one.
        made: when the Secret was made; None if unknown.
        request: the name of the user that a person wants replaced; empty for none.
        new_password: for a next user.
        brokers: all of the cluster, masters first; empty while nothing rotates.
        problem: why not all brokers are known or answer; empty if they do.
    """

    users: InnerUsers | None = None
    made: datetime | None = None
    request: str = ""
    new_password: str = field(default="", repr=False)
    brokers: tuple[BrokerUsers, ...] = ()
    problem: str = ""


NO_ROTATION: Final = ObservedRotation()


@dataclass(frozen=True, slots=True)
class RotationPlan:
    """The next steps of a rotation, and what the status says of it."""

    plan: ResourcePlan
    state: Wait


def account_of(user: Credentials) -> Json:
    """Return the account that a super user has in each broker."""
    return {
        "username": user.username,
        "password": user.password,
        "userType": SUPER,
        "userStatus": ENABLED,
        "rights": {},
    }


def rotation_plan(
    owner: Owner,
    spec: Authentication,
    observed: ObservedRotation,
    sets: Sequence[Live],
    now: datetime,
    *,
    shares: bool,
) -> RotationPlan:
    """Return the next steps of a rotation, none without a need for one.

    Args:
        owner: the RocketMQCluster.
        spec: what it says of its super user.
        observed: the users, and what the brokers know of them.
        sets: StatefulSets and Deployments whose pods read the Secret when they start.
        now: the wall clock.
        shares: whether other clusters have the same controllers, which sign with one user.
    """
    users = observed.users
    if users is None:
        return RotationPlan(
            NO_STEPS, Wait("CredentialsPending", "the Secret of the super user is being made")
        )
    if not users.rotates:
        return _begin(owner, spec, observed, users, now, shares=shares)
    if shares and users.next is not None:
        return RotationPlan(NO_STEPS, _shared(users.current.username))
    if observed.problem:
        return _waiting(users, observed.problem)
    if users.next is not None:
        return _prepare(owner, observed.brokers, users, users.next, now)
    return _finish(owner, spec, observed.brokers, users, sets, now)


def rotation_finding(state: Wait) -> Finding:
    """Return the condition."""
    return make_finding(
        CONDITION, holds=state.reason == "Current", reason=state.reason, message=state.message
    )


def _begin(
    owner: Owner,
    spec: Authentication,
    observed: ObservedRotation,
    users: InnerUsers,
    now: datetime,
    *,
    shares: bool,
) -> RotationPlan:
    since, name = users.since or observed.made, users.current.username
    days = spec.rotate_after_days
    is_due = days is not None and since is not None and now - since >= timedelta(days=days)
    why = "asked for" if observed.request == name else f"older than {days} days" if is_due else ""
    if why and shares:
        return RotationPlan(NO_STEPS, _shared(name))
    if not why:
        text = f"all sign as {name}" + ("" if since is None else f" since {since:%Y-%m-%d %H:%M}")
        return RotationPlan(NO_STEPS, Wait("Current", text))
    user = Credentials(next_username(name), observed.new_password)
    text = f"{user.username} will replace {name}: {why}"
    return _write(owner, replace(users, next=user), PREPARED, text)


def _prepare(
    owner: Owner, brokers: Sequence[BrokerUsers], users: InnerUsers, user: Credentials, now: datetime
) -> RotationPlan:
    wanted = account_of(user)
    writes = tuple(
        WriteMetadata(
            kind=USER_KIND.kind,
            name=user.username,
            group=one.group,
            address=one.address,
            config=wanted,
            why="the next super user",
            drifted=False,
        )
        for one in brokers
        if one.next != wanted
    )
    if writes:
        text = f"{len(writes)} of {len(brokers)} brokers do not know {user.username} yet"
        return RotationPlan(ResourcePlan(writes), Wait("Rotating", text))
    name = users.current.username
    text = f"all {len(brokers)} brokers know {user.username}: it signs, and not {name}"
    switched = InnerUsers(user, None, name if name != user.username else "", now.replace(microsecond=0))
    return _write(owner, switched, SWITCHED, text)


def _finish(
    owner: Owner,
    spec: Authentication,
    brokers: Sequence[BrokerUsers],
    users: InnerUsers,
    sets: Sequence[Live],
    now: datetime,
) -> RotationPlan:
    name = users.current.username
    if behind := [
        one["metadata"]["name"] for one in sets if not _has_restarted(one, signer_mark(users.current))
    ]:
        return _waiting(users, f"pods of {', '.join(sorted(behind))} have not been replaced yet")
    if others := [one.address for one in brokers if one.signs_as != name]:
        return _waiting(users, f"{', '.join(others)} do not sign as {name} yet: restart these brokers")
    end = (users.since or now) + timedelta(minutes=spec.keep_former_minutes)
    if now < end:
        return _waiting(users, f"brokers know {users.former} until {end:%Y-%m-%d %H:%M}")
    deletes = tuple(
        DeleteMetadata(USER_KIND.kind, users.former, one.group, one.address)
        for one in brokers
        if one.knows_former and is_own(users.former)
    )
    if deletes:
        text = f"{len(deletes)} brokers know {users.former} still"
        return RotationPlan(ResourcePlan(deletes), Wait("Rotating", text))
    text = f"{name} has replaced {users.former}"
    return _write(owner, replace(users, former=""), ROTATED, text)


def _shared(username: str) -> Wait:
    text = f"{username} must be replaced by a person: clusters that share controllers have one user for all"
    return Wait("SharedControllers", text)


def _has_restarted(live: Live, mark: str) -> bool:
    """Tell whether all pods of a set are ready, and were made with this mark."""
    status, replicas = live.get("status") or {}, live["spec"].get("replicas", 1)
    counts = ("replicas", "updatedReplicas", "readyReplicas")
    return (
        mark_of(live) == mark
        and status.get("observedGeneration") == live["metadata"].get("generation")
        and all(status.get(count, 0) == replicas for count in counts)
    )


def _waiting(users: InnerUsers, why: str) -> RotationPlan:
    name = users.current.username
    step = f"{users.next.username} will replace {name}" if users.next else f"{name} replaces {users.former}"
    return RotationPlan(NO_STEPS, Wait("Rotating", f"{step}: {why}"))


def _write(owner: Owner, users: InnerUsers, reason: str, why: str) -> RotationPlan:
    step = RotateCredentials(with_digest(credentials_secret(owner, users)), reason, why)
    return RotationPlan(ResourcePlan((step,)), Wait("Rotating", why))
