"""Settings of pods: the same closed section for each component of each kind, and an override for the rest.

`PodSettings` has the fields that people use most. `PodOverride` is a strategic merge patch of the finished
template (`plan.common.shaping.override`). Both are absent unless a person gives them. Without them a template
does not change.

Rules that depend on other objects, such as the address of one, are in `plan.common.shaping.owned_fields`.
"""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, JsonValue

from rocketmq_operator.api.base import KEPT_WHOLE, PRESERVED, Rule, SpecModel, kept_by
from rocketmq_operator.api.common import Toleration
from rocketmq_operator.api.names import GROUP
from rocketmq_operator.api.pods.parts import (
    CONTAINERS_MAX,
    OBJECT_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    VOLUMES_MAX,
    Env,
    ExtraContainer,
    Mounts,
    ObjectName,
    PullPolicy,
    Volume,
)
from rocketmq_operator.api.pods.selectors import LABELS_MAX, Affinity, LabelValue, TopologySpread

GRACE_S_MIN: Final = 30
GRACE_S_MAX: Final = 3_600
ID_MAX: Final = 2**31 - 1
OWNED_ENV: Final = ("JAVA_OPT_EXT", "POD_IP", "POD_NAME")
OWNED_VOLUMES: Final = ("config", "credentials", "data", "scratch", "token")
MOUNTABLE_VOLUMES: Final = ("data", "scratch")
OWNED_CONTAINERS: Final = (
    "broker", "companion", "controller", "log-replica", "nameserver", "proxy", "route-front",
    "seed",
)  # fmt: skip
OWNED_MOUNTS: Final = (
    "/", "/etc/rocketmq", "/etc/rocketmq-credentials", "/etc/rocketmq-token", "/tmp", "/var/lib/rocketmq",  # noqa: S108 - in pods
)  # fmt: skip
OWNED_LABELS: Final = (
    "app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/name",
    "app.kubernetes.io/part-of", "controller-revision-hash", "pod-template-hash",
)  # fmt: skip
OWNED_PREFIXES: Final = (f"{GROUP}/", "statefulset.kubernetes.io/", "apps.kubernetes.io/")


class ProbeNumbers(SpecModel):
    """Numbers of a probe; the operator decides how it asks."""

    initial_delay_seconds: Annotated[int, Field(ge=0, le=3_600)] | None = None
    """Seconds before the first try."""
    period_seconds: Annotated[int, Field(ge=1, le=300)] | None = None
    """Seconds between two tries."""
    timeout_seconds: Annotated[int, Field(ge=1, le=60)] | None = None
    """Seconds after which a try has failed."""
    failure_threshold: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Failures in a row that count."""


class Probes(SpecModel):
    """The probes of the main container; numbers that are absent stay the operator's."""

    startup: ProbeNumbers | None = None
    """Until it passes, the others wait. A broker recovers a large log before it passes."""
    liveness: ProbeNumbers | None = None
    """Where it fails, the kubelet restarts the container."""
    readiness: ProbeNumbers | None = None
    """Where it fails, clients are sent elsewhere and a rollout waits."""


class SeccompProfile(SpecModel):
    """Which system calls the processes of a pod may use."""

    type: Literal["RuntimeDefault", "Localhost", "Unconfined"]
    """Where the profile comes from."""
    localhost_profile: Annotated[str, Field(min_length=1, max_length=OBJECT_LENGTH_MAX)] | None = None
    """Its path on the node, for Localhost."""


class SeLinuxOptions(SpecModel):
    """The SELinux label of a pod's processes."""

    user: Annotated[str, Field(max_length=OBJECT_LENGTH_MAX)] | None = None
    """Its user."""
    role: Annotated[str, Field(max_length=OBJECT_LENGTH_MAX)] | None = None
    """Its role."""
    type: Annotated[str, Field(max_length=OBJECT_LENGTH_MAX)] | None = None
    """Its type."""
    level: Annotated[str, Field(max_length=OBJECT_LENGTH_MAX)] | None = None
    """Its level."""


class PodSecurity(SpecModel):
    """Who the processes of a pod are. They are never root."""

    run_as_user: Annotated[int, Field(ge=1, le=ID_MAX)] | None = None
    """User id; the platform chooses when absent."""
    run_as_group: Annotated[int, Field(ge=0, le=ID_MAX)] | None = None
    """Group id; the platform chooses when absent."""
    fs_group: Annotated[int, Field(ge=0, le=ID_MAX)] | None = None
    """Group that volumes belong to; the platform chooses when absent."""
    fs_group_change_policy: Literal["OnRootMismatch", "Always"] | None = None
    """When the node changes the owner of files; OnRootMismatch when absent."""
    supplemental_groups: (
        Annotated[
            tuple[Annotated[int, Field(ge=0, le=ID_MAX)], ...],
            Field(max_length=VOLUMES_MAX, json_schema_extra=KEPT_WHOLE),
        ]
        | None
    ) = None
    """Further groups of the processes."""
    seccomp_profile: SeccompProfile | None = None
    """RuntimeDefault when absent."""
    se_linux_options: SeLinuxOptions | None = None
    """The platform chooses when absent."""


class PullSecret(SpecModel):
    """A Secret of this namespace with which the node pulls images."""

    name: ObjectName
    """Of the Secret."""


class HostAlias(SpecModel):
    """Names of a host that pods know without DNS."""

    ip: Annotated[str, Field(min_length=2, max_length=45)]
    """Its address."""
    hostnames: Annotated[
        tuple[ObjectName, ...], Field(min_length=1, max_length=VOLUMES_MAX, json_schema_extra=KEPT_WHOLE)
    ]
    """Its names."""


def _cel_list(values: Iterable[str]) -> str:
    return "[" + ", ".join(f"'{value}'" for value in values) + "]"


def _owned(field: str, key: str, values: tuple[str, ...]) -> Rule:
    """Return the rule that a list does not contain names that the operator uses itself."""
    attribute = {"volumeMounts": "volume_mounts"}.get(field, field)
    of_item = {"mountPath": "mount_path"}.get(key, key)
    names = _cel_list(values)

    def taken(spec: Any) -> list[str]:  # noqa: ANN401 - the model is defined below
        return sorted(
            str(getattr(one, of_item))
            for one in getattr(spec, attribute) or ()
            if getattr(one, of_item) in values
        )

    return Rule(
        name="OwnedName",
        expression=f"!has(self.{field}) || !self.{field}.exists(one, one.{key} in {names})",
        message=f"'pod.{field} has %s, which the operator uses: take another name'.format("
        f"[self.{field}.filter(one, one.{key} in {names})[0].{key}])",
        holds=lambda spec: not taken(spec),
        problem=lambda spec: f"pod.{field} has {taken(spec)[0]}, which the operator uses: take another name",
        reason="FieldValueForbidden",
    )


def _owned_keys(field: str, keys: tuple[str, ...], prefixes: tuple[str, ...]) -> Rule:
    """Return the rule that labels or annotations lack the keys that the operator or Kubernetes writes."""
    test = " || ".join([f"key in {_cel_list(keys)}", *(f"key.startsWith('{one}')" for one in prefixes)])

    def taken(spec: Any) -> list[str]:  # noqa: ANN401 - the model is defined below
        return sorted(key for key in getattr(spec, field) or {} if key in keys or key.startswith(prefixes))

    return Rule(
        name="OwnedKey",
        expression=f"!has(self.{field}) || !self.{field}.exists(key, {test})",
        message=f"'pod.{field} has ' + self.{field}.filter(key, {test})[0] + ', which the operator or "
        "Kubernetes writes: remove it'",
        holds=lambda spec: not taken(spec),
        problem=lambda spec: (
            f"pod.{field} has {taken(spec)[0]}, which the operator or Kubernetes writes: remove it"
        ),
        reason="FieldValueForbidden",
    )


def _mounts_without_volume(spec: Any) -> list[str]:  # noqa: ANN401 - the model is defined below
    known = {*MOUNTABLE_VOLUMES, *(one.name for one in spec.volumes or ())}
    return sorted(one.name for one in spec.volume_mounts or () if one.name not in known)


_NO_VOLUME: Final = (
    f"!(one.name in {_cel_list(MOUNTABLE_VOLUMES)}) && "
    "!(has(self.volumes) && self.volumes.exists(volume, volume.name == one.name))"
)
_VOLUME_EXISTS = Rule(
    name="NoSuchVolume",
    expression=f"!has(self.volumeMounts) || !self.volumeMounts.exists(one, {_NO_VOLUME})",
    message="'pod.volumeMounts names volume %s, which is not in pod.volumes'.format("
    f"[self.volumeMounts.filter(one, {_NO_VOLUME})[0].name])",
    holds=lambda spec: not _mounts_without_volume(spec),
    problem=lambda spec: (
        f"pod.volumeMounts names volume {_mounts_without_volume(spec)[0]}, which is not in pod.volumes"
    ),
)


class PodSettings(SpecModel):
    """Settings of a component's pods; each field is absent unless a person gives it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _owned_keys("labels", OWNED_LABELS, OWNED_PREFIXES),
        _owned_keys("annotations", (), OWNED_PREFIXES[:1]),
        _owned("env", "name", OWNED_ENV),
        _owned("volumes", "name", OWNED_VOLUMES),
        _owned("volumeMounts", "mountPath", OWNED_MOUNTS),
        _owned("containers", "name", OWNED_CONTAINERS),
        _VOLUME_EXISTS,
    )

    labels: Annotated[dict[str, LabelValue], Field(max_length=LABELS_MAX)] | None = None
    """Further labels of the pods."""
    annotations: (
        Annotated[dict[str, Annotated[str, Field(max_length=TEXT_LENGTH_MAX)]], Field(max_length=LABELS_MAX)]
        | None
    ) = None
    """Further annotations of the pods."""
    env: Env | None = None
    """Further environment variables of the main container."""
    priority_class_name: ObjectName | None = None
    """Their PriorityClass."""
    image_pull_secrets: (
        Annotated[tuple[PullSecret, ...], Field(max_length=LABELS_MAX, json_schema_extra=kept_by("name"))]
        | None
    ) = None
    """Secrets with which nodes pull their images."""
    image_pull_policy: PullPolicy | None = None
    """When nodes pull the images of the operator's containers; Kubernetes' default when absent."""
    service_account_name: ObjectName | None = None
    """Their ServiceAccount. Its token is not mounted."""
    affinity: Affinity | None = None
    """Rules of the scheduler, added to those of `placement`."""
    topology_spread_constraints: (
        Annotated[
            tuple[TopologySpread, ...],
            Field(max_length=LABELS_MAX, json_schema_extra=KEPT_WHOLE),
        ]
        | None
    ) = None
    """How evenly they are spread over places."""
    tolerations: (
        Annotated[tuple[Toleration, ...], Field(max_length=LABELS_MAX, json_schema_extra=KEPT_WHOLE)] | None
    ) = None
    """Taints that they put up with, added to those of `placement`."""
    node_selector: Annotated[dict[str, LabelValue], Field(max_length=LABELS_MAX)] | None = None
    """Labels that a node must have, added to those of `placement`; of equal keys this value counts."""
    volumes: (
        Annotated[tuple[Volume, ...], Field(max_length=VOLUMES_MAX, json_schema_extra=kept_by("name"))] | None
    ) = None
    """Further volumes."""
    volume_mounts: Mounts | None = None
    """Where the main container has them."""
    containers: (
        Annotated[
            tuple[ExtraContainer, ...], Field(max_length=CONTAINERS_MAX, json_schema_extra=kept_by("name"))
        ]
        | None
    ) = None
    """Further containers."""
    host_aliases: (
        Annotated[tuple[HostAlias, ...], Field(max_length=VOLUMES_MAX, json_schema_extra=kept_by("ip"))]
        | None
    ) = None
    """Further lines of their hosts file."""
    termination_grace_period_seconds: Annotated[int, Field(ge=GRACE_S_MIN, le=GRACE_S_MAX)] | None = None
    """Seconds after which the kubelet kills containers that run; a broker hands over in the first 20."""
    probes: Probes | None = None
    """Numbers of the main container's probes."""
    security_context: PodSecurity | None = None
    """User and groups. When absent, those of the images; when it is empty (`{}`), the platform chooses, as
    OpenShift does."""
    runtime_class_name: ObjectName | None = None
    """Their RuntimeClass."""


class OverriddenMetadata(SpecModel):
    """Labels and annotations of the pods."""

    labels: Annotated[dict[str, LabelValue], Field(max_length=LABELS_MAX)] | None = None
    """Laid over the labels."""
    annotations: (
        Annotated[dict[str, Annotated[str, Field(max_length=TEXT_LENGTH_MAX)]], Field(max_length=LABELS_MAX)]
        | None
    ) = None
    """Laid over the annotations."""


class PodOverride(SpecModel):
    """A strategic merge patch of a pod template, applied last.

    The operator refuses it where it changes a field that it needs, and names the field (`PodsAccepted`).
    """

    metadata: OverriddenMetadata | None = None
    """Labels and annotations."""
    spec: Annotated[dict[str, JsonValue], Field(max_length=64, json_schema_extra=PRESERVED)] | None = None
    """A pod's spec, in part. Lists of named entries are merged by name."""
