"""Parts of a pod that people add: variables, volumes, mounts and containers.

Every field is absent unless a person gives it. `podOverride` has all other fields of Kubernetes.

Source: Kubernetes 1.34 core/v1.
"""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from rocketmq_operator.api.base import KEPT_WHOLE, Rule, SpecModel, kept_by
from rocketmq_operator.api.common import Amount, Resources

NAME_LENGTH_MAX: Final = 63
OBJECT_LENGTH_MAX: Final = 253
PATH_LENGTH_MAX: Final = 1_024
TEXT_LENGTH_MAX: Final = 4_096
ENV_MAX: Final = 64
VOLUMES_MAX: Final = 16
CONTAINERS_MAX: Final = 8
DNS_LABEL: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
ENV_NAME: Final = "^[-._a-zA-Z][-._a-zA-Z0-9]*$"
ContainerName = Annotated[str, Field(max_length=NAME_LENGTH_MAX, pattern=DNS_LABEL)]
ObjectName = Annotated[str, Field(min_length=1, max_length=OBJECT_LENGTH_MAX)]
FileMode = Annotated[int, Field(ge=0, le=0o777)]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
Words = Annotated[
    tuple[Annotated[str, Field(max_length=TEXT_LENGTH_MAX)], ...],
    Field(max_length=64, json_schema_extra=KEPT_WHOLE),
]


class KeyOfObject(SpecModel):
    """One key of a Secret or ConfigMap of this namespace."""

    name: ObjectName
    """Of the Secret or ConfigMap."""
    key: ObjectName
    """Its key."""
    optional: bool | None = None
    """Whether the pod starts without it."""


class FieldOfPod(SpecModel):
    """A field of the pod itself."""

    field_path: Annotated[str, Field(min_length=1, max_length=OBJECT_LENGTH_MAX)]
    """For instance spec.nodeName."""


class EnvSource(SpecModel):
    """Where a variable's value is."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="OneSource",
            expression="[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)]"
            ".filter(one, one).size() == 1",
            message="'valueFrom has %d sources: give one of secretKeyRef, configMapKeyRef, fieldRef'"
            ".format([[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)]"
            ".filter(one, one).size()])",
            holds=lambda source: _given(source) == 1,
            problem=lambda source: (
                f"valueFrom has {_given(source)} sources: give one of secretKeyRef, configMapKeyRef, fieldRef"
            ),
        ),
    )

    secret_key_ref: KeyOfObject | None = None
    """A key of a Secret."""
    config_map_key_ref: KeyOfObject | None = None
    """A key of a ConfigMap."""
    field_ref: FieldOfPod | None = None
    """A field of the pod."""


class EnvVar(SpecModel):
    """One environment variable."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="OneValue",
            expression="has(self.value) != has(self.valueFrom)",
            message="'env ' + self.name + ' needs either value or valueFrom'",
            holds=lambda one: (one.value is None) != (one.value_from is None),
            problem=lambda one: f"env {one.name} needs either value or valueFrom",
        ),
    )

    name: Annotated[str, Field(max_length=OBJECT_LENGTH_MAX, pattern=ENV_NAME)]
    """Its name."""
    value: Annotated[str, Field(max_length=TEXT_LENGTH_MAX)] | None = None
    """Its value."""
    value_from: EnvSource | None = None
    """Where its value is. The operator does not restart pods when that changes."""


Env = Annotated[tuple[EnvVar, ...], Field(max_length=ENV_MAX, json_schema_extra=kept_by("name"))]


class FileOfKey(SpecModel):
    """A key as a file."""

    key: ObjectName
    """The key."""
    path: Annotated[str, Field(min_length=1, max_length=PATH_LENGTH_MAX)]
    """The file, below the mount."""
    mode: FileMode | None = None
    """Its permissions, as a decimal number: 288 is 0440."""


Files = Annotated[tuple[FileOfKey, ...], Field(max_length=64, json_schema_extra=KEPT_WHOLE)]


class ConfigMapVolume(SpecModel):
    """The files of a ConfigMap."""

    name: ObjectName
    """Of the ConfigMap."""
    items: Files | None = None
    """Which keys; all when absent."""
    default_mode: FileMode | None = None
    """Permissions of the files, as a decimal number: 288 is 0440."""
    optional: bool | None = None
    """Whether the pod starts without it."""


class SecretVolume(SpecModel):
    """The files of a Secret."""

    secret_name: ObjectName
    """Of the Secret."""
    items: Files | None = None
    """Which keys; all when absent."""
    default_mode: FileMode | None = None
    """Permissions of the files, as a decimal number: 288 is 0440."""
    optional: bool | None = None
    """Whether the pod starts without it."""


class ClaimVolume(SpecModel):
    """A PersistentVolumeClaim that exists already; all pods of the component mount it."""

    claim_name: ObjectName
    """Of the claim."""
    read_only: bool | None = None
    """Whether it is mounted for reading only."""


class EmptyDirVolume(SpecModel):
    """An empty directory that goes with the pod."""

    medium: Literal["Memory"] | None = None
    """Memory for a file system in memory; the node's disk when absent."""
    size_limit: Amount | None = None
    """Its size, for instance 1Gi."""


class CsiVolume(SpecModel):
    """A volume of a CSI driver that goes with the pod, such as a store of secrets."""

    driver: ObjectName
    """Name of the driver."""
    read_only: bool | None = None
    """Whether it is mounted for reading only."""
    volume_attributes: (
        Annotated[dict[str, Annotated[str, Field(max_length=PATH_LENGTH_MAX)]], Field(max_length=VOLUMES_MAX)]
        | None
    ) = None
    """Parameters of the driver."""


_SOURCES: Final = (
    "[has(self.configMap), has(self.secret), has(self.persistentVolumeClaim), has(self.emptyDir), "
    "has(self.csi)].filter(one, one).size()"
)


class Volume(SpecModel):
    """One volume of a pod."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="OneVolumeSource",
            expression=f"{_SOURCES} == 1",
            message="'volumes ' + self.name + ' needs exactly one of configMap, secret, "
            "persistentVolumeClaim, emptyDir, csi'",
            holds=lambda one: _given(one, "name") == 1,
            problem=lambda one: (
                f"volumes {one.name} needs exactly one of configMap, secret, persistentVolumeClaim, "
                "emptyDir, csi"
            ),
        ),
    )

    name: ContainerName
    """By which mounts name it."""
    config_map: ConfigMapVolume | None = None
    """The files of a ConfigMap."""
    secret: SecretVolume | None = None
    """The files of a Secret."""
    persistent_volume_claim: ClaimVolume | None = None
    """A claim that exists already."""
    empty_dir: EmptyDirVolume | None = None
    """An empty directory."""
    csi: CsiVolume | None = None
    """A volume of a CSI driver."""


class VolumeMount(SpecModel):
    """Where a container has a volume."""

    mount_path: Annotated[str, Field(max_length=PATH_LENGTH_MAX, pattern="^/[^:]*$")]
    """The path in the container."""
    name: ContainerName
    """Of the volume: one of `volumes`, or the operator's `data` or `scratch`."""
    sub_path: Annotated[str, Field(min_length=1, max_length=PATH_LENGTH_MAX)] | None = None
    """A path in the volume."""
    read_only: bool | None = None
    """Whether it is mounted for reading only."""


Mounts = Annotated[
    tuple[VolumeMount, ...], Field(max_length=VOLUMES_MAX, json_schema_extra=kept_by("mountPath"))
]


class ContainerPort(SpecModel):
    """A port of a container."""

    container_port: Annotated[int, Field(ge=1, le=65_535)]
    """Its number."""
    name: Annotated[str, Field(min_length=1, max_length=15)] | None = None
    """Its name."""
    protocol: Literal["TCP", "UDP", "SCTP"] | None = None
    """TCP when absent."""


class ExtraContainer(SpecModel):
    """A container beside those of the operator.

    The pod is ready only while it is ready too. It runs without root, capabilities and privileges.
    """

    name: ContainerName
    """Its name."""
    image: Annotated[str, Field(min_length=1, max_length=512)]
    """Its image."""
    image_pull_policy: PullPolicy | None = None
    """When the node pulls the image."""
    command: Words | None = None
    """Replaces the image's entry point."""
    args: Words | None = None
    """Replaces the image's arguments."""
    env: Env | None = None
    """Its environment variables."""
    ports: (
        Annotated[
            tuple[ContainerPort, ...],
            Field(max_length=VOLUMES_MAX, json_schema_extra=kept_by("containerPort")),
        ]
        | None
    ) = None
    """Its ports."""
    resources: Resources = Resources(cpu="100m", memory="128Mi")
    """Its CPU and memory."""
    volume_mounts: Mounts | None = None
    """Where it has volumes: of `volumes`, or the operator's `data` and `scratch`."""
    read_only_root_filesystem: bool | None = None
    """Whether it cannot write to its image; it cannot when absent."""


def _given(model: SpecModel, *but: str) -> int:
    """Return how many fields of a model are given, without some."""
    return sum(value is not None for name, value in model if name not in but)
