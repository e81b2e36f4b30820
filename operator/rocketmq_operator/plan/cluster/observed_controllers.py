"""The controllers as they describe themselves, and their membership as their leader describes it.

The values are read once, typed and frozen.

The operator reads two sources, because neither has all data. The leader knows the members, their stores and
their progress. A controller itself knows which store it has and whether that contains a log: the leader
cannot tell one that lost its volume from one that is down.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Json


class ControllerRole(StrEnum):
    """What a controller is in the membership."""

    VOTER = "voter"
    LEARNER = "learner"
    NONE = ""
    """It is no member."""


@dataclass(frozen=True, slots=True)
class ObservedController:
    """One controller that there is, or may be.

    Attributes:
        ordinal: of its pod.
        role: in the membership, by the leader's word.
        active: whether the leader hears it.
        lag_entries: how far it is behind; None until the leader has heard from it.
        member_store: the store with which it is a member, as the leader reports it; empty until known.
        own_store: the store that it says it has, empty while it does not answer.
        has_log: whether that store has a log; None while it does not answer.
        changed_settings: its settings that somebody changed while it ran, with their values, by key.
    """

    ordinal: int
    role: ControllerRole = ControllerRole.NONE
    active: bool = False
    lag_entries: int | None = None
    member_store: str = ""
    own_store: str = ""
    has_log: bool | None = None
    changed_settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def lost_its_store(self) -> bool:
        """Whether it came back with another store, an empty one.

        The controller itself says so; silence never means it.
        """
        known = bool(self.member_store and self.own_store)
        return (
            self.role is not ControllerRole.NONE
            and self.has_log is False
            and known
            and not _is_same_store(self.own_store, self.member_store)
        )


@dataclass(frozen=True, slots=True)
class ObservedControllers:
    """The controllers as observed.

    Attributes:
        leader: the leader's pod, as any controller reports it; empty if unknown.
        term: Raft's.
        has_leader: whether the leader itself answered: only then the roles below are known.
        controllers: every controller that there may be, by ordinal, and members beyond.
    """

    leader: str
    term: int
    has_leader: bool = False
    controllers: tuple[ObservedController, ...] = ()

    @property
    def voters(self) -> tuple[ObservedController, ...]:
        """Those that vote."""
        return tuple(one for one in self.controllers if one.role is ControllerRole.VOTER)

    @property
    def members(self) -> tuple[ObservedController, ...]:
        """Those that vote or learn."""
        return tuple(one for one in self.controllers if one.role is not ControllerRole.NONE)

    def at(self, ordinal: int) -> ObservedController:
        """Return a controller; an unknown one is not a member and does not answer."""
        return next((one for one in self.controllers if one.ordinal == ordinal), ObservedController(ordinal))


_FINGERPRINT_DIGITS: Final = 16
_LEADS: Final = "leader"


def _is_same_store(one: str, other: str) -> bool:
    """Say whether two controllers name one store.

    A controller of this release names a store by a fingerprint of its incarnation, one of the release before
    by the incarnation, which has as many digits.
    """
    return one == other or _fingerprint(one) == other or one == _fingerprint(other)


def _fingerprint(incarnation: str) -> str:
    """Return how a controller of this release shows an incarnation.

    It is `store_fingerprint` of `controller_core`.
    """
    digest = hashlib.sha256(b"store fingerprint\0" + incarnation.encode())
    return digest.hexdigest()[:_FINGERPRINT_DIGITS]


def leader_ordinal(nodes: Sequence[Json | None]) -> int | None:
    """Return which controller leads, by its own word; of two, the one of the newer term."""
    found = [(node["term"], ordinal) for ordinal, node in enumerate(nodes) if node and node["role"] == _LEADS]
    return max(found)[1] if found else None


def parse_controllers(nodes: Sequence[Json | None], members: Json | None) -> ObservedControllers | None:
    """Read what the controllers said; None if none did.

    Args:
        nodes: each one's `GET /v1/status`, by ordinal; None if it did not answer.
        members: the leader's `GET /v1/members`, None without a leader.

    Raises:
        KeyError, TypeError, ValueError: an answer has an unexpected shape.
    """
    answers = [node for node in nodes if node is not None]
    if not answers:
        return None
    newest = max(answers, key=lambda node: (bool(node["leader_address"]), node["term"]))
    members_by_ordinal = {_ordinal(one["name"]): one for one in (members or {"members": []})["members"]}
    controllers = [
        _parse_controller(
            ordinal, nodes[ordinal] if ordinal < len(nodes) else None, members_by_ordinal.get(ordinal)
        )
        for ordinal in sorted({*range(len(nodes)), *members_by_ordinal})
    ]
    return ObservedControllers(
        leader=names.pod_of(str(newest["leader_address"] or "").partition(":")[0]),
        term=int(newest["term"]),
        has_leader=members is not None,
        controllers=tuple(controllers),
    )


def _parse_controller(ordinal: int, node: Json | None, member: Json | None) -> ObservedController:
    return ObservedController(
        ordinal=ordinal,
        role=ControllerRole.NONE if member is None else ControllerRole(member["role"] or ""),
        active=member is not None and bool(member["active"]),
        lag_entries=member["lag_entries"] if member is not None and member["match_index"] else None,
        member_store="" if member is None else member["incarnation"] or "",
        own_store="" if node is None else node["incarnation"] or "",
        has_log=None if node is None else bool(node["voters"]),
        # A controller of the release before does not tell.
        changed_settings={} if node is None else _texts(node.get("changed_settings") or {}),
    )


def _texts(value: Mapping[object, object]) -> dict[str, str]:
    return {str(key): str(text) for key, text in value.items()}


def _ordinal(name: str) -> int:
    return int(name.removeprefix("n"))
