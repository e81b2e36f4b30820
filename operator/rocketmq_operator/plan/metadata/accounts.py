"""A User's settings and a broker's account of the same name: compared, and made from one another.

A broker's account is what `clients.broker_users` reads and writes:

| key | value |
|---|---|
| username, password, userType, userStatus | RocketMQ's UserInfo |
| rights | by resource: actions, sourceIps and decision of an entry of the policy type Custom |

Brokers answer with passwords in plain text, so a password that differs is drift like any other. No difference
shows one.
"""

from collections.abc import Iterator
from typing import Final

from controller_core.access.users import DISABLED, ENABLED
from rocketmq_operator.api.access.user import UserRight, UserSpec
from rocketmq_operator.api.metadata import DIFFERENCES_MAX, VALUE_LENGTH_MAX, FieldDrift
from rocketmq_operator.plan.common.objects import Json

_OTHER: Final = "another one"
_OWN: Final = "that of its Secret"


def account(spec: UserSpec, name: str, password: str) -> Json:
    """Return what the spec asks of a broker."""
    return {
        "username": name,
        "password": password,
        "userType": str(spec.type),
        "userStatus": ENABLED if spec.enabled else DISABLED,
        "rights": {one.resource: _entry(one) for one in spec.rights},
    }


def account_differences(wanted: Json, found: Json) -> tuple[FieldDrift, ...]:
    """Return what a broker has otherwise, field by field; all that is wanted if `found` is empty."""
    return tuple(_differences(wanted, found))[:DIFFERENCES_MAX]


def _differences(wanted: Json, found: Json) -> Iterator[FieldDrift]:
    if found.get("password") != wanted["password"]:
        yield FieldDrift(field="password", wanted=_OWN, found=_OTHER if found.get("password") else "")
    if (type_ := found.get("userType", "")) != wanted["userType"]:
        yield FieldDrift(field="type", wanted=wanted["userType"], found=type_)
    if (status := found.get("userStatus", "")) != wanted["userStatus"]:
        yield FieldDrift(field="enabled", wanted=_flag(wanted["userStatus"]), found=_flag(status))
    rights: dict[str, Json] = found.get("rights", {})
    for resource in sorted(wanted["rights"].keys() | rights.keys()):
        asked, has = wanted["rights"].get(resource), rights.get(resource)
        if asked != has:
            yield FieldDrift(field=f"rights.{resource}"[:160], wanted=_text(asked), found=_text(has))


def _entry(right: UserRight) -> Json:
    return {
        "actions": sorted(map(str, right.actions)),
        "sourceIps": sorted(right.source_ips),
        "decision": str(right.decision),
    }


def _flag(status: str) -> str:
    return {ENABLED: "true", DISABLED: "false"}.get(status, status)[:VALUE_LENGTH_MAX]


def _text(entry: Json | None) -> str:
    if entry is None:
        return ""
    places = f" from {','.join(entry['sourceIps'])}" if entry["sourceIps"] else ""
    return f"{entry['decision']} {','.join(entry['actions'])}{places}"[:VALUE_LENGTH_MAX]
