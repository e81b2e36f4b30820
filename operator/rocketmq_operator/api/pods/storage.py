"""The volumes of a group's members: how they are claimed, and what brokers have besides."""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel
from rocketmq_operator.api.common import (
    LABEL_VALUE_PATTERN,
    NAME_LENGTH_MAX,
    ObjectName,
    Quantity,
    StorageSpec,
)
from rocketmq_operator.api.names import GROUP

CLAIM_LABELS_MAX: Final = 32
ClaimLabel = Annotated[str, Field(max_length=NAME_LENGTH_MAX, pattern=LABEL_VALUE_PATTERN)]
CLAIM_ANNOTATION_LENGTH_MAX: Final = 1_024
_OWNED_PREFIXES: Final = (f"{GROUP}/", "app.kubernetes.io/")


def _owned_keys(field: str) -> Rule:
    """Return the rule that a map of a claim lacks the keys by which the operator finds it."""
    test = " || ".join(f"key.startsWith('{one}')" for one in _OWNED_PREFIXES)

    def taken(spec: Any) -> list[str]:  # noqa: ANN401 - the model is defined below
        return sorted(key for key in getattr(spec, field) or {} if key.startswith(_OWNED_PREFIXES))

    why = f"{' and '.join(_OWNED_PREFIXES)} belong to the operator: remove it"
    return Rule(
        name="OwnedKey",
        expression=f"!has(self.{field}) || !self.{field}.exists(key, {test})",
        message=f"'storage.{field} has ' + self.{field}.filter(key, {test})[0] + ': {why}'",
        holds=lambda spec: not taken(spec),
        problem=lambda spec: f"storage.{field} has {taken(spec)[0]}: {why}",
        reason="FieldValueForbidden",
    )


_EPHEMERAL_WHY: Final = "an ephemeral volume is an emptyDir of the pod: remove it, or set ephemeral to false"


def _without_claim(
    field: str, attribute: str, in_cel: str, shown: Callable[[Any], str], arguments: str = ""
) -> Rule:
    """Return the rule that a field of claims is absent without claims.

    Args:
        field: in the spec.
        attribute: the same on the model.
        in_cel: the part of a text in CEL that shows the field's value.
        shown: the same in Python.
        arguments: what follows the whole text: a call of `format`, whose result must be the whole message.
            The API server takes that result for endless if more is added to it.
    """
    return Rule(
        name="NoClaim",
        expression=f"!self.ephemeral || !has(self.{field})",
        message=f"'storage.ephemeral is true with storage.{field} {in_cel}: {_EPHEMERAL_WHY}'" + arguments,
        holds=lambda spec: not spec.ephemeral or getattr(spec, attribute) is None,
        problem=lambda spec: (
            f"storage.ephemeral is true with storage.{field} {shown(getattr(spec, attribute))}: "
            f"{_EPHEMERAL_WHY}"
        ),
        reason="FieldValueForbidden",
    )


def _without_entries(field: str) -> Rule:
    """Return the rule that a map of claims is absent without claims."""
    arguments = f".format([self.{field}.size()])"
    return _without_claim(field, field, "of %d entries", lambda given: f"of {len(given)} entries", arguments)


class TieredStorage(SpecModel):
    """A second volume of each broker."""

    size: Quantity
    """Size of the volume, for instance 500Gi."""
    storage_class_name: ObjectName | None = None
    """Class of the volume; the cluster's default when absent."""


class GroupStorage(StorageSpec):
    """The volume of each member of a group."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *StorageSpec.RULES,
        Rule(
            name="Unchangeable",
            expression="self.ephemeral == oldSelf.ephemeral",
            message="'storage.ephemeral cannot change from %s to %s: make another group'"
            ".format([oldSelf.ephemeral, self.ephemeral])",
            reason="FieldValueForbidden",
        ),
        Rule(
            name="Unchangeable",
            expression="has(self.tiered) == has(oldSelf.tiered) && "
            "(!has(self.tiered) || self.tiered == oldSelf.tiered)",
            message="'storage.tiered cannot change from ' + "
            "(has(oldSelf.tiered) ? oldSelf.tiered.size : 'none') + ' to ' + "
            "(has(self.tiered) ? self.tiered.size : 'none') + ': Kubernetes keeps the volumes of a set'",
            reason="FieldValueForbidden",
        ),
        _owned_keys("labels"),
        _owned_keys("annotations"),
        _without_claim("storageClassName", "storage_class_name", "' + self.storageClassName + '", str),
        _without_claim(
            "volumeAttributesClassName",
            "volume_attributes_class_name",
            "' + self.volumeAttributesClassName + '",
            str,
        ),
        _without_entries("labels"),
        _without_entries("annotations"),
        _without_claim("tiered", "tiered", "of ' + self.tiered.size + '", lambda given: f"of {given.size}"),
    )

    ephemeral: bool = False
    """Whether each member keeps its messages in its pod only, as an emptyDir of at most `size`. For tests: a
    deleted or restarted pod loses all its messages. Cannot change."""
    volume_attributes_class_name: ObjectName | None = None
    """VolumeAttributesClass of the volumes, for instance for IOPS. May change."""
    labels: Annotated[dict[str, ClaimLabel], Field(max_length=CLAIM_LABELS_MAX)] | None = None
    """Further labels of the PersistentVolumeClaims. A label that is removed here stays on claims."""
    annotations: (
        Annotated[
            dict[str, Annotated[str, Field(max_length=CLAIM_ANNOTATION_LENGTH_MAX)]],
            Field(max_length=CLAIM_LABELS_MAX),
        ]
        | None
    ) = None
    """Further annotations of the PersistentVolumeClaims. One that is removed here stays on claims."""
    tiered: TieredStorage | None = None
    """A second volume of each broker, at which `tieredStoreFilePath` points. Cannot change."""


TIERED_PATH_OWNED = Rule(
    name="OwnedKey",
    expression="!has(self.storage.tiered) || !('tieredStoreFilePath' in self.config)",
    message="'config.tieredStoreFilePath is ' + self.config['tieredStoreFilePath'] + ' with storage.tiered: "
    "the operator points it at that volume, remove it'",
    holds=lambda spec: spec.storage.tiered is None or "tieredStoreFilePath" not in spec.config,
    problem=lambda spec: (
        f"config.tieredStoreFilePath is {spec.config['tieredStoreFilePath']} with storage.tiered: the "
        "operator points it at that volume, remove it"
    ),
    reason="FieldValueForbidden",
)
LEARNERS_WITHOUT_CLAIM = Rule(
    name="NoClaim",
    expression="!self.storage.ephemeral || !has(self.learners.storage) || "
    "!has(self.learners.storage.storageClassName)",
    message="'storage.ephemeral is true with learners.storage.storageClassName ' + "
    f"self.learners.storage.storageClassName + ': {_EPHEMERAL_WHY}'",
    holds=lambda spec: (
        not spec.storage.ephemeral
        or spec.learners.storage is None
        or spec.learners.storage.storage_class_name is None
    ),
    problem=lambda spec: (
        "storage.ephemeral is true with learners.storage.storageClassName "
        f"{spec.learners.storage.storage_class_name}: {_EPHEMERAL_WHY}"
    ),
    reason="FieldValueForbidden",
)
