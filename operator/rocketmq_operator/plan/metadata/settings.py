"""A spec's settings and a broker's configuration of the same topic or consumer group.

This module compares the two, and makes one from the other.

A broker's configuration is the JSON of Java's class. What the spec does not speak of is sent back as it was
found, because a broker replaces the whole; attributes are the exception, of which only those that differ are
sent: a broker merges them, and refuses one that cannot change even if it is the same.

Source: RocketMQ 5.3.3 TopicConfig.java, SubscriptionGroupConfig.java, AttributeUtil.java, PermName.java;
tried with 5.2.0 and 5.5.0.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rocketmq_operator.api.consumer_group import ConsumerGroupSpec
from rocketmq_operator.api.metadata import DIFFERENCES_MAX, VALUE_LENGTH_MAX, FieldDrift
from rocketmq_operator.api.topic import Permission, TopicSpec
from rocketmq_operator.plan.common.objects import Json

TableSpec = TopicSpec | ConsumerGroupSpec
"""Of kinds whose configuration a broker replaces as a whole."""
MESSAGE_TYPE: Final = "message.type"
_PERM: Final[Mapping[Permission, int]] = {
    Permission.READ_WRITE: 6,
    Permission.READ: 4,
    Permission.WRITE: 2,
}
"""4 read, 2 write."""
_ATTRIBUTE: Final = "attributes."
_IN_JAVA: Final[Mapping[str, str]] = {
    "readQueues": "readQueueNums",
    "writeQueues": "writeQueueNums",
    "permission": "perm",
    "consumeEnable": "consumeEnable",
    "consumeBroadcastEnable": "consumeBroadcastEnable",
    "consumeFromMinEnable": "consumeFromMinEnable",
    "retryMaxTimes": "retryMaxTimes",
    "retryQueueNums": "retryQueueNums",
    "consumeTimeoutMinute": "consumeTimeoutMinute",
    "notifyConsumerIdsChangedEnable": "notifyConsumerIdsChangedEnable",
}
"""Field of a spec to the key in the broker's configuration; `ordered` has another one in each kind."""


def settings(spec: TableSpec) -> dict[str, Any]:
    """Return what the spec asks of a broker, by its field; permissions are RocketMQ's bits."""
    written = spec.model_dump(mode="json", by_alias=True)
    found = {field: written[field] for field in _IN_JAVA if field in written}
    found["ordered"] = spec.ordered
    if isinstance(spec, TopicSpec):
        found["permission"] = _PERM[spec.permission]
        found["messageType"] = str(spec.message_type)
        found |= {f"{_ATTRIBUTE}{key}": value for key, value in spec.attributes.items()}
    return found


def differences(spec: TableSpec, config: Json) -> tuple[FieldDrift, ...]:
    """Return what a broker has otherwise than the spec, field by field."""
    return tuple(
        FieldDrift(field=field, wanted=_text(field, wanted), found=_text(field, found))
        for field, wanted, found in _compared(spec, config)
    )[:DIFFERENCES_MAX]


def config_to_write(spec: TableSpec, name: str, found: Json | None) -> Json:
    """Return the configuration that gives a broker what the spec asks.

    Args:
        spec: the wanted settings.
        name: in the broker.
        found: what the broker has, None if nothing. Its `attributes` are replaced by those that change, with
            `+` before the key.
    """
    config = dict(found or {})
    config["topicName" if isinstance(spec, TopicSpec) else "groupName"] = name
    changes = {}
    wanted = settings(spec)
    for field, value in wanted.items():
        if (attribute := _attribute(field)) is None:
            config[_key(spec, field)] = value
    for field, value, _ in _compared(spec, found or {}):
        if (attribute := _attribute(field)) is not None:
            changes[f"+{attribute}"] = value
    return config | {"attributes": changes}


def _compared(spec: TableSpec, config: Json) -> Iterator[tuple[str, Any, Any]]:
    """Yield (field, wanted, found) for each difference; found is None if the broker lacks the field."""
    attributes = config.get("attributes") or {}
    for field, wanted in settings(spec).items():
        attribute = _attribute(field)
        found = config.get(_key(spec, field)) if attribute is None else attributes.get(attribute)
        if found != wanted:
            yield field, wanted, found


def _attribute(field: str) -> str | None:
    """Return the attribute that a field stands for, None if it stands for none."""
    if field == "messageType":
        return MESSAGE_TYPE
    return field.removeprefix(_ATTRIBUTE) if field.startswith(_ATTRIBUTE) else None


def _key(spec: TableSpec, field: str) -> str:
    if field == "ordered":
        return "order" if isinstance(spec, TopicSpec) else "consumeMessageOrderly"
    return _IN_JAVA[field]


def _text(field: str, value: object) -> str:
    if field == "permission":
        value = next((word for word, bits in _PERM.items() if bits == value), value)
    text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text[:VALUE_LENGTH_MAX]
