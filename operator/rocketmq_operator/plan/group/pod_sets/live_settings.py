"""Settings of `config` that reach running brokers: no restart, and the condition `ConfigApplied`.

A companion gives its broker the changed settings that it takes at run time
(`controller_core.broker_settings`), so the digest that restarts pods leaves these out. Companions tell what
their broker lacks, and of which file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller_core.broker_settings import LIVE_SETTINGS
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.conditions import Finding, make_finding
from rocketmq_operator.api.members.roles import RoleMode
from rocketmq_operator.api.names import CONFIG_HASH_ANNOTATION
from rocketmq_operator.plan.common.objects import Json, Live
from rocketmq_operator.plan.common.observation import ObservationError

CONDITION: Final = "ConfigApplied"


@dataclass(frozen=True, slots=True)
class ToldSettings:
    """What a companion says of its broker's settings.

    Attributes:
        file: digest of the file that it compared.
        waiting: names of the settings that wait for a restart.
        refused: value by name of those that the broker did not take.
    """

    file: str
    waiting: tuple[str, ...]
    refused: Mapping[str, str]


def parse_settings(value: Json) -> ToldSettings | None:
    """Read the settings from a companion's `GET /v1/status`; None if it does not know."""
    told = value.get("settings")
    if told is None:
        return None
    try:
        refused = {str(name): str(text) for name, text in told["refused"].items()}
        return ToldSettings(str(told["file"]), tuple(map(str, told["waiting"])), refused)
    except (KeyError, TypeError, AttributeError) as error:
        raise ObservationError(f"not a status of a companion: {error!r}") from error


def restarting_settings(spec: BrokerGroupSpec) -> BrokerGroupSpec:
    """Return the spec without the settings that brokers take at run time.

    Brokers with static roles lack a companion: all their settings wait for a restart.
    """
    if spec.mode is RoleMode.STATIC:
        return spec
    kept = {name: value for name, value in spec.config.items() if name not in LIVE_SETTINGS}
    return spec if len(kept) == len(spec.config) else spec.model_copy(update={"config": kept})


def with_kept_digest(body: Json, whole: str, live: Live | None) -> Json:
    """Return a StatefulSet whose pods keep the digest of all settings if they have it.

    An operator of an older release counted all settings. Its pods are not restarted because this one does
    not; they have the new digest after the next change of the spec.

    Args:
        body: the StatefulSet, with the digest of the settings that restart brokers.
        whole: the digest of all settings.
        live: the StatefulSet that exists.
    """
    if live is None or _digest(live) != whole:
        return body
    template = body["spec"]["template"]
    metadata = template["metadata"]
    annotations = metadata["annotations"] | {CONFIG_HASH_ANNOTATION: whole}
    kept = template | {"metadata": metadata | {"annotations": annotations}}
    return body | {"spec": body["spec"] | {"template": kept}}


def _digest(live: Live) -> str:
    metadata = live["spec"]["template"].get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(CONFIG_HASH_ANNOTATION, ""))


def settings_finding(
    spec: BrokerGroupSpec, told: Mapping[str, ToldSettings], file: str
) -> tuple[Finding, ...]:
    """Return whether the brokers run with `config`; nothing without `config`, or with static roles.

    Args:
        spec: the group's spec.
        told: what companions say, by broker.
        file: digest of the file that the spec gives.
    """
    if not spec.config or spec.mode is RoleMode.STATIC:
        return ()
    if not told:
        text = "no companion has compared its broker with spec.config"
        return (make_finding(CONDITION, holds=None, reason="NotCompared", message=text),)
    if problems := list(_problems(told, file)):
        reason = problems[0][0]
        text = "; ".join(text for _, text in problems)
        return (make_finding(CONDITION, holds=False, reason=reason, message=text),)
    text = f"{', '.join(sorted(told))}: run with spec.config"
    return (make_finding(CONDITION, holds=True, reason="AllApplied", message=text),)


def _problems(told: Mapping[str, ToldSettings], file: str) -> Iterator[tuple[str, str]]:
    """Yield reason and text of each problem, what a person must correct first."""
    for broker, one in sorted(told.items()):
        if one.refused:
            texts = ", ".join(f"{name}={value}" for name, value in sorted(one.refused.items()))
            yield "SettingsNotTaken", f"{broker} does not take {texts}"
    for broker, one in sorted(told.items()):
        if one.waiting:
            yield "WaitingForRestart", f"{broker}: {', '.join(one.waiting)} wait for its restart"
    for broker, one in sorted(told.items()):
        if one.file != file:
            yield "SettingsOnTheirWay", f"{broker} has not got the newest settings yet"
