"""Finish a pod template: the operator's own, then `pod`, then `podOverride`, each checked by itself.

A spec with neither has the operator's template, byte for byte, so that an upgrade restarts no pod.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.api.pods.jvm import Jvm
from rocketmq_operator.api.pods.settings import PodOverride, PodSettings
from rocketmq_operator.plan.common.actions import Wait
from rocketmq_operator.plan.common.objects import Json
from rocketmq_operator.plan.common.shaping.override import PodRefusedError, merge_pod
from rocketmq_operator.plan.common.shaping.owned_fields import check_owned
from rocketmq_operator.plan.common.shaping.settings import with_settings

REFUSED: Final = "PodRefused"
"""Reason of a wait and of `PodsAccepted`."""
_TEXT_MAPS: Final = frozenset({"annotations", "labels", "matchLabels", "nodeSelector", "volumeAttributes"})
_QUANTITY_MAPS: Final = frozenset({"limits", "overhead", "requests"})
_MAPS: Final = _TEXT_MAPS | _QUANTITY_MAPS
_KEPT_TEXTS: Final = frozenset({"storageClassName", "volumeAttributesClassName"})
_ZEROS: Final = frozenset(
    {"hostIPC", "hostNetwork", "hostPID", "hostPort", "initialDelaySeconds", "readOnly", "stdin", "tty"}
)
"""Fields that Kubernetes does not keep when they are false or 0."""


@dataclass(frozen=True, slots=True)
class PodShape:
    """A person's wishes for the pods of one component.

    Attributes:
        path: of the settings in the resource, for instance spec.controllers.pod.
        settings: the closed section.
        override: a patch that is laid over the result.
        jvm: settings of its main container's JVM, which are in its own template already.
    """

    path: str
    settings: PodSettings | None
    override: PodOverride | None
    jvm: Jvm | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to refuse."""
        return self.settings is None and self.override is None and self.jvm is None


def refusal(shapes: Iterable[PodShape], rendered: Callable[[], object]) -> Wait | None:
    """Return why the operator refuses to make the pods of a spec; None if it does not.

    Args:
        shapes: of all components of the resource.
        rendered: makes all their templates, and raises `PodRefusedError`.
    """
    if all(one.is_empty for one in shapes):
        return None
    try:
        rendered()
    except PodRefusedError as error:
        return Wait(REFUSED, str(error))
    return None


def accepted_finding(wait: Wait | None) -> Finding:
    """Return the finding for `PodsAccepted`."""
    if wait is not None:
        return make_finding("PodsAccepted", holds=False, reason=wait.reason, message=wait.message)
    return make_finding("PodsAccepted", holds=True, reason="Accepted", message="")


def shaped(template: Json, shape: PodShape) -> Json:
    """Return a pod template with a person's wishes.

    Raises:
        PodRefusedError: they would remove a field that the operator needs.
    """
    result = template
    if shape.settings is not None:
        result = normal_form(with_settings(result, shape.settings))
        check_owned(template, result, shape.path, is_flat=True)
    if shape.override is not None:
        where = f"{shape.path}Override"
        result = normal_form(_merged(result, shape.override, where))
        check_owned(template, result, where)
    return result


def _merged(template: Json, override: PodOverride, where: str) -> Json:
    metadata: Json = {}
    if override.metadata is not None:
        metadata = override.metadata.model_dump(mode="json", by_alias=True, exclude_none=True)
    try:
        return {
            "metadata": merge_pod(template["metadata"], metadata, "metadata"),
            "spec": merge_pod(template["spec"], override.spec or {}, "spec"),
        }
    except PodRefusedError as error:
        raise PodRefusedError(f"{where}.{error}") from None


def normal_form(value: Any, name: str = "") -> Any:  # noqa: ANN401 - any JSON value
    """Return a template as the API server keeps it.

    Why: the operator compares templates with live ones. It would write one for ever that the API server
    changes.
    """
    if isinstance(value, Mapping):
        if name in _QUANTITY_MAPS:
            return {key: str(part) for key, part in value.items()}
        if name in _TEXT_MAPS:
            return dict(value)
        found = {key: normal_form(part, key) for key, part in value.items()}
        return {key: part for key, part in found.items() if not _is_dropped(key, part)}
    if isinstance(value, list):
        return [normal_form(one) for one in value]
    return str(value) if name == "sizeLimit" else value


def _is_dropped(name: str, value: object) -> bool:
    if value is None or value == []:
        return True
    if value == {}:
        return name in _MAPS
    if value == "":
        return name not in _KEPT_TEXTS
    return name in _ZEROS and not value
