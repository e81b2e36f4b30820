"""The super users that sign for the operator and the members of a cluster, as its Secret has them.

| key of the Secret | value |
|---|---|
| username, password | the user that signs now; pods have both as files and follow them |
| nextUsername, nextPassword | the user that will sign next; only while a rotation prepares it |
| formerUsername | the user that signed before; only while brokers still know it |

An annotation has the time since when the user signs. Brokers and proxies read the Secret only when they
start. So their pods carry the user's name in an annotation, and a new name replaces them. The first user has
no such annotation, and neither has one that a person wrote into the Secret: neither restarts anything.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from controller_core.access.signing import Credentials
from rocketmq_operator.api.names import SIGNER_ANNOTATION, SIGNS_SINCE_ANNOTATION
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Json, Live, Owner, belonging_labels, child

_NEXT_USERNAME: Final = "nextUsername"
_NEXT_PASSWORD: Final = "nextPassword"  # noqa: S105 - a key's name
_FORMER_USERNAME: Final = "formerUsername"
_OWN: Final = re.compile(rf"{names.INNER_USER}(?:-([0-9]{{1,9}}))?")


@dataclass(frozen=True, slots=True)
class InnerUsers:
    """The super users of a cluster.

    Attributes:
        current: signs.
        next: brokers get it before it signs; None without a rotation that prepares it.
        former: name of the user that signed before; empty once brokers forgot it.
        since: when the current one began to sign; None if it is the first, or a person wrote it.
    """

    current: Credentials
    next: Credentials | None = None
    former: str = ""
    since: datetime | None = None

    @property
    def rotates(self) -> bool:
        """Whether a rotation has begun and has not ended."""
        return self.next is not None or bool(self.former)


NO_USERS: Final = InnerUsers(Credentials("", ""))
"""Of a cluster without users."""


def inner_users(secret: Live | None) -> InnerUsers | None:
    """Return the users of a Secret; None without a user that can sign."""
    data: Mapping[str, str] = {} if secret is None else secret.get("data") or {}
    texts = {key: base64.b64decode(value).decode() for key, value in data.items()}
    current = _credentials(texts, names.USERNAME_KEY, names.PASSWORD_KEY)
    if current is None or secret is None:
        return None
    since = (secret["metadata"].get("annotations") or {}).get(SIGNS_SINCE_ANNOTATION)
    return InnerUsers(
        current,
        _credentials(texts, _NEXT_USERNAME, _NEXT_PASSWORD),
        texts.get(_FORMER_USERNAME, ""),
        None if since is None else datetime.fromisoformat(since),
    )


def signer_of(secret: Live | None) -> Credentials | None:
    """Return the user that signs; None without one."""
    users = inner_users(secret)
    return None if users is None else users.current


def credentials_secret(owner: Owner, users: InnerUsers) -> Json:
    """Return the Secret; brokers make the user that signs from it when they start."""
    texts = {names.USERNAME_KEY: users.current.username, names.PASSWORD_KEY: users.current.password}
    if users.next is not None:
        texts |= {_NEXT_USERNAME: users.next.username, _NEXT_PASSWORD: users.next.password}
    if users.former:
        texts[_FORMER_USERNAME] = users.former
    made = child(
        owner,
        "Secret",
        names.credentials_secret(owner.name),
        labels=belonging_labels(owner.name),
        type="kubernetes.io/basic-auth",
        data={key: base64.b64encode(text.encode()).decode() for key, text in texts.items()},
    )
    if users.since is not None:
        made["metadata"]["annotations"] = {SIGNS_SINCE_ANNOTATION: users.since.isoformat()}
    return made


def next_username(username: str) -> str:
    """Return a name that no earlier user of ours has: a broker that was away may still know those."""
    match = _OWN.fullmatch(username)
    number = int(match[1] or 1) if match else 1
    return f"{names.INNER_USER}-{number + 1}"


def is_own(username: str) -> bool:
    """Tell whether the operator made a user; any other one belongs to a person."""
    return _OWN.fullmatch(username) is not None


def signer_mark(user: Credentials | None) -> str:
    """Return what pods that read the Secret at their start carry; empty for nothing."""
    name = names.INNER_USER if user is None else user.username
    return name if is_own(name) and name != names.INNER_USER else ""


def marked(body: Json, mark: str) -> Json:
    """Return a StatefulSet or Deployment whose pods carry the mark; unchanged without one."""
    if not mark:
        return body
    template = body["spec"]["template"]
    metadata = template["metadata"]
    annotations = metadata.get("annotations", {}) | {SIGNER_ANNOTATION: mark}
    written = template | {"metadata": metadata | {"annotations": annotations}}
    return body | {"spec": body["spec"] | {"template": written}}


def mark_of(live: Live) -> str:
    """Return the mark of a live set's pods; empty for none."""
    annotations = live["spec"]["template"]["metadata"].get("annotations") or {}
    return str(annotations.get(SIGNER_ANNOTATION, ""))


def _credentials(texts: Mapping[str, str], username: str, password: str) -> Credentials | None:
    found = texts.get(username, ""), texts.get(password, "")
    return Credentials(*found) if all(found) else None
