"""The rights of accounts, by their roles, against their acts, by the API server's audit log.

Pure: objects in, sets out.

A right is one account, API group, resource (with its subresource, as rules write it) and verb; names of
objects are left aside. Server-side apply of an absent object is one `patch` in the log, though the API server
asks for `create` too: its answer, 201, tells.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

Json = Mapping[str, Any]
CREATED: Final = 201
_ACCOUNT: Final = "system:serviceaccount:"
_DECISION: Final = "authorization.k8s.io/decision"


class Right(NamedTuple):
    """One thing that one account may do."""

    account: str
    group: str
    resource: str
    verb: str


@dataclass(frozen=True, slots=True)
class Used:
    """What the accounts of a namespace were seen to do.

    Attributes:
        rights: their allowed and completed requests.
        refused: what they asked for and had no right to, in words.
    """

    rights: frozenset[Right]
    refused: frozenset[str]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where rights and their use part; all three empty where they are one.

    Attributes:
        ungranted: used, though no role of the accounts has it.
        unused: granted, never used, and without a recorded reason.
        unexcused: excused, and yet used or not granted: the excuse is old.
    """

    ungranted: frozenset[Right]
    unused: frozenset[Right]
    unexcused: frozenset[Right]


def used(events: Iterable[Json], namespace: str) -> Used:
    """Return what a namespace's accounts did by an audit log's events, in whatever namespace."""
    rights: set[Right] = set()
    refused: set[str] = set()
    for event in events:
        user = str(event.get("user", {}).get("username", ""))
        prefix = f"{_ACCOUNT}{namespace}:"
        if not user.startswith(prefix):
            continue
        account = user.removeprefix(prefix)
        if event.get("annotations", {}).get(_DECISION) == "forbid":
            refused.add(f"{account}: {event['verb']} {event['requestURI'].partition('?')[0]}")
        elif "objectRef" in event:
            rights |= _rights_of(account, event)
    return Used(frozenset(rights), frozenset(refused))


def _rights_of(account: str, event: Json) -> set[Right]:
    what = event["objectRef"]
    resource = "/".join(part for part in (what["resource"], what.get("subresource")) if part)
    verbs = {event["verb"]}
    if event["verb"] == "patch" and event.get("responseStatus", {}).get("code") == CREATED:
        verbs.add("create")
    return {Right(account, what.get("apiGroup", ""), resource, verb) for verb in verbs}


def granted(roles: Iterable[Json], bindings: Iterable[Json], namespace: str) -> frozenset[Right]:
    """Return what the accounts of a namespace may do by these (Cluster)Roles, as these bindings give them."""
    rules = {_role_key(role): role.get("rules") or [] for role in roles}
    return frozenset(
        Right(subject["name"], group, resource, verb)
        for binding in bindings
        for subject in binding.get("subjects") or []
        if (subject["kind"], subject.get("namespace")) == ("ServiceAccount", namespace)
        for rule in rules.get(_bound_key(binding), [])
        for group in rule.get("apiGroups") or []
        for resource in rule.get("resources") or []
        for verb in rule["verbs"]
    )


def _role_key(role: Json) -> tuple[str, str, str]:
    return role["kind"], role["metadata"].get("namespace", ""), role["metadata"]["name"]


def _bound_key(binding: Json) -> tuple[str, str, str]:
    kind = binding["roleRef"]["kind"]
    namespace = binding["metadata"].get("namespace", "") if kind == "Role" else ""
    return kind, namespace, binding["roleRef"]["name"]


def difference(
    done: frozenset[Right], may: frozenset[Right], excused: Mapping[Right, str] | None = None
) -> Difference:
    """Hold rights against their use; `excused` says of rights that a run does not use why they are needed."""
    excuses = frozenset(excused or {})
    return Difference(
        ungranted=done - may, unused=may - done - excuses, unexcused=(excuses & done) | (excuses - may)
    )
