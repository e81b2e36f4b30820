"""What a plan is made of: steps that can be carried out, and the reason why none is.

A step is a value. It names one write, and doing it twice is the same as doing it once, so a crash between a
write and its note costs nothing: the next observation finds the remaining work.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rocketmq_operator.api.names import WANTED_HASH_ANNOTATION
from rocketmq_operator.plan.common.objects import (
    IDENTITY_LABELS,
    Children,
    Json,
    Live,
    ObjectKey,
    Owner,
    covers,
    describe_owner,
    is_ours,
    key_of,
)
from rocketmq_operator.plan.common.rewritten_fields import describe_rewritten_field


@dataclass(frozen=True, slots=True)
class Apply:
    """Write an object by server-side apply."""

    body: Json
    why: str = "differs"

    def __str__(self) -> str:
        """Say it in words."""
        key = key_of(self.body)
        return f"apply {key.kind} {key.name} ({self.why})"


@dataclass(frozen=True, slots=True)
class ApplyStatus:
    """Write the status of an object of ours."""

    body: Json

    def __str__(self) -> str:
        """Say it in words."""
        key = key_of(self.body)
        return f"complete {key.kind} {key.name}"


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an object; with `uid`, that very one and no later one of the same name.

    `by_force` does not wait until a node says that a pod has ended: for a node that says nothing any more.
    """

    key: ObjectKey
    uid: str
    why: str
    by_force: bool = False

    def __str__(self) -> str:
        """Say it in words."""
        return f"delete {self.key.kind} {self.key.name} ({self.why})"


@dataclass(frozen=True, slots=True)
class Designate:
    """Ask the controllers to make a member master."""

    member: str
    broker_id: int
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"make {self.member} master ({self.why})"


@dataclass(frozen=True, slots=True)
class ChangeMembers:
    """Ask the controllers to change who they are.

    Attributes:
        action: add, promote or remove.
        member: as the controllers call it; with its address where it is added.
        pod: whose controller it is.
        why: for the plan's reader.
        reason: one word, of the Event that tells it.
    """

    action: str
    member: str
    pod: str
    why: str
    reason: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.action} controller {self.pod} ({self.why})"


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Give a broker of a group a topic, a consumer group or a user.

    Attributes:
        kind: Topic, ConsumerGroup or User.
        name: in the broker.
        group: the BrokerGroup.
        address: of the broker, host:port.
        config: as Java writes it; in `attributes` those that change, with `+` before the key. A user's has
            its password.
        why: what differs, in words.
        drifted: whether it was as it should be before.
    """

    kind: str
    name: str
    group: str
    address: str
    config: Json = field(repr=False)
    why: str
    drifted: bool

    def __str__(self) -> str:
        """Say it in words."""
        return f"write {self.kind} {self.name} in {self.group} ({self.why})"


@dataclass(frozen=True, slots=True)
class DeleteMetadata:
    """Have a broker of a group forget a topic, a consumer group or a user."""

    kind: str
    name: str
    group: str
    address: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"delete {self.kind} {self.name} in {self.group}"


@dataclass(frozen=True, slots=True)
class DeleteRoute:
    """Have a name server forget a topic's routes to the brokers of a cluster."""

    cluster: str
    topic: str
    address: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"delete the routes of {self.topic} at {self.address}"


class AuthorityChange(StrEnum):
    """How a cluster's authority changes; `plan.tls.steps` has the table.

    Keys are made when a step is carried out, because a plan knows no chance.
    """

    CREATE = "make"
    TRUST_NEXT = "trust the next"
    SIGN_WITH_NEXT = "sign with the next"
    DROP_OLD = "drop the former"


@dataclass(frozen=True, slots=True)
class WriteAuthority:
    """Change the Secret with a cluster's authority.

    Attributes:
        secret: its name.
        change: which change.
        why: for the plan's reader.
    """

    secret: str
    change: AuthorityChange
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.change} authority ({self.why})"


@dataclass(frozen=True, slots=True)
class IssueCertificates:
    """Write a Secret with certificates, and with the authorities that are trusted.

    Attributes:
        secret: its name.
        hosts: of each certificate, by its id.
        renewed: ids of those that get a new key.
        why: for the plan's reader.
    """

    secret: str
    hosts: Mapping[str, frozenset[str]]
    renewed: frozenset[str]
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        which = ", ".join(sorted(self.renewed)) or "no certificate"
        return f"issue {which} of Secret {self.secret} ({self.why})"


@dataclass(frozen=True, slots=True)
class RotateCredentials:
    """Write the Secret with the super users of a cluster after a change.

    Attributes:
        body: the Secret.
        reason: one word, of the Event that tells it.
        why: for the plan's reader.
    """

    body: Json = field(repr=False)
    reason: str
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"write Secret {key_of(self.body).name} ({self.why})"


Step = (
    Apply
    | ApplyStatus
    | Delete
    | Designate
    | ChangeMembers
    | WriteMetadata
    | DeleteMetadata
    | DeleteRoute
    | WriteAuthority
    | IssueCertificates
    | RotateCredentials
)


@dataclass(frozen=True, slots=True)
class Wait:
    """Why the next step is not taken: one word, and the same for people."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ResourcePlan:
    """Steps in their order of execution; `wait` says why the plan ends here.

    Attributes:
        steps: the writes.
        wait: why the next step is not taken.
        notes: deviations from the spec that no step can change; they block nothing.
    """

    steps: tuple[Step, ...] = ()
    wait: Wait | None = None
    notes: tuple[Wait, ...] = ()


NO_STEPS = ResourcePlan()
"""No step, no wait: the next concern may have its turn."""


def first_until_wait(concerns: Iterable[ResourcePlan]) -> ResourcePlan:
    """Return the steps of all concerns up to and with the first that waits.

    A concern with steps does not hide the steps of the next one, so that a status can list all remaining
    work.
    """
    steps: list[Step] = []
    notes: list[Wait] = []
    for concern in concerns:
        steps.extend(concern.steps)
        notes.extend(one for one in concern.notes if one not in notes)
        if concern.wait is not None:
            return ResourcePlan(tuple(steps), concern.wait, tuple(notes))
    return ResourcePlan(tuple(steps), None, tuple(notes))


def child_steps(owner: Owner, wanted: Iterable[Json], children: Children) -> ResourcePlan:
    """Return the steps that bring children to the wanted state; waits if a name belongs to another owner."""
    bodies = [with_digest(body) for body in wanted]
    for body in bodies:
        live = children.get(key_of(body))
        if live is not None and not is_ours(live, owner, _identity(body)):
            return ResourcePlan((), name_taken(live, owner))
    rewritten_fields = {key_of(body): _rewritten(body, children.get(key_of(body))) for body in bodies}
    steps = tuple(_apply_steps((body for body in bodies if not rewritten_fields[key_of(body)]), children))
    return ResourcePlan(
        steps, None, tuple(field_rewritten(problem) for problem in rewritten_fields.values() if problem)
    )


def _rewritten(body: Json, live: Live | None) -> str:
    return "" if live is None or covers(live, body) else describe_rewritten_field(live, body)


def field_rewritten(problem: str) -> Wait:
    """Say that somebody changes a field of ours whenever it is written."""
    return Wait("FieldRewritten", problem)


def name_taken(live: Live, owner: Owner) -> Wait:
    """Say that an object that has a name of ours is not ours, and whose it is."""
    key = key_of(live)
    problem = (
        f"{key.kind} {key.name} exists and is not of {owner.kind} {owner.name}: {describe_owner(live, owner)}"
    )
    return Wait("NameTaken", problem)


def _identity(body: Json) -> dict[str, str | None]:
    labels = body["metadata"].get("labels") or {}
    return {key: labels.get(key) for key in IDENTITY_LABELS}


def with_digest(body: Json) -> Json:
    """Return the object with a digest of itself.

    Why: a field that is no longer wanted is in the live object only, so that a comparison of the fields we
    want finds nothing; the digest differs, the object is applied, and server-side apply removes the field.
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    metadata = body["metadata"]
    annotations = metadata.get("annotations", {}) | {WANTED_HASH_ANNOTATION: digest}
    return body | {"metadata": metadata | {"annotations": annotations}}


def _apply_steps(bodies: Iterable[Json], children: Children) -> Iterator[Apply]:
    for body in bodies:
        live = children.get(key_of(body))
        if live is None:
            yield Apply(body, "missing")
        elif not covers(live, body):
            yield Apply(body)
