"""Read OpenSLO v1 documents as objectives.

Problem: a team has its objectives in OpenSLO already, or edits our export. What maps to an indicator of the
catalogue is read; anything else is refused by what it lacks, as an objective that is judged differently from
what its file says is worse than none. Shape: parse each document (`openslo_model`), follow its references
within the file, then make the objects of `model`, whose own rules hold as for our file. An SLI is one of the
catalogue's if its metric source says `indicator`, else by its name, else by the series that its queries read.
Never: a document of another file is looked for, and no query is run: the report computes from what the
collector wrote.

Source: OpenSLO v1 specification; duration shorthands M, Q and Y are 30, 90 and 365 days.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError

from slo_pipeline.objectives import openslo_model as v1
from slo_pipeline.objectives.catalogue import INDICATORS
from slo_pipeline.objectives.model import BurnAlert, Objectives, ObjectivesError, seconds
from slo_pipeline.objectives.openslo import SHORT_WINDOW, TARGET_PERCENT
from slo_pipeline.objectives.violations import first_violation

CALENDAR_DAYS: Final = {"M": 30, "Q": 90, "Y": 365}
SHORT_WINDOW_SHARE: Final = 12
"""The workbook's short windows are this part of the long one."""
SERIES: Final = {
    "rmqha_canary_send_duration_seconds": "send_latency",
    "rmqha_canary_send_total": "write_availability",
    "rmqha_canary_read_total": "durability",
    "rmqha_ha_lag_bytes": "replication_lag",
    "rmqha_group_sync_state_set_size": "in_sync_ratio",
    "rmqha_controller_role": "controller_leader",
    "rmqha_elections_total": "election_health",
}
"""Which indicator a query measures; the first series that it reads decides."""
_BOUND: Final = re.compile(r'\ble="([0-9]+(?:\.[0-9]+)?)"')
_MS_PER_S: Final = 1_000.0


def is_openslo(document: object) -> bool:
    """Return whether a YAML document claims to be OpenSLO's, or a list of such."""
    if isinstance(document, list):
        return any(is_openslo(one) for one in document)
    return isinstance(document, dict) and "apiVersion" in document


_Model = TypeVar("_Model", bound=BaseModel)


class _Document:
    """One parsed document; `refuse` names it."""

    def __init__(self, number: int, found: object) -> None:
        self._place = f"document {number}"
        if not isinstance(found, dict):
            self.refuse(f"{found!r} (expected a mapping with apiVersion, kind, metadata and spec)")
        self.kind = str(found.get("kind"))
        named = found.get("metadata")
        name = named.get("name") if isinstance(named, dict) else None
        self._place += f" ({self.kind} {name!r})"
        if found.get("apiVersion") != v1.API_VERSION:
            self.refuse(f"apiVersion: {found.get('apiVersion')!r} (expected {v1.API_VERSION})")
        if self.kind not in v1.SPECS:
            self.refuse(f"kind: {self.kind!r} (expected one of {', '.join(v1.SPECS)})")
        unknown = sorted(map(str, set(found) - {"apiVersion", "kind", "metadata", "spec"}))
        if unknown:
            self.refuse(f"{unknown[0]}: unknown field (expected apiVersion, kind, metadata and spec)")
        self.metadata = self.parse(v1.Metadata, named, "metadata")
        self.spec: Any = self.parse(v1.SPECS[self.kind], found.get("spec") or {}, "spec")

    def refuse(self, why: str) -> NoReturn:
        """Refuse this document."""
        raise ObjectivesError(f"{self._place}: {why}")

    def parse(self, model: type[_Model], found: object, field: str) -> _Model:
        """Return a field as a model's object, or refuse it."""
        if not isinstance(found, dict):
            self.refuse(f"{field}: {found!r} (expected a mapping)")
        try:
            return model.model_validate(found)
        except ValidationError as error:
            self.refuse(f"{field}.{first_violation(error)}".replace(".:", ":"))


class _Library:
    """All documents of a file, by kind and name."""

    def __init__(self, documents: Sequence[_Document]) -> None:
        self._known: dict[tuple[str, str], _Document] = {}
        for document in documents:
            key = (document.kind, document.metadata.name)
            if key in self._known:
                document.refuse(
                    "metadata.name: another document of this kind has it (expected a unique name)"
                )
            self._known[key] = document

    def slos(self) -> list[_Document]:
        """Return the SLOs in the file's order."""
        return [document for document in self._known.values() if document.kind == "SLO"]

    def get(self, kind: str, name: str, asked_by: _Document, field: str) -> _Document:
        """Return the document that a reference names."""
        found = self._known.get((kind, name))
        if found is None:
            asked_by.refuse(
                f"{field}: {name!r} (expected the name of a document of kind {kind} in this file)"
            )
        return found


def objectives(found: Sequence[Any]) -> Objectives:
    """Make objectives of the documents of a file.

    Raises:
        ObjectivesError: document, field, fault and expectation.
    """
    flat = [one for document in found for one in (document if isinstance(document, list) else [document])]
    library = _Library([_Document(number, one) for number, one in enumerate(flat, start=1)])
    slos = library.slos()
    if not slos:
        raise ObjectivesError("no document of kind SLO (expected at least one)")
    made = [_slo(slo, library) for slo in slos]
    whole: dict[str, Any] = {
        "service": _common(slos, "service", [slo.spec.service for slo in slos]),
        "timeWindow": _common(slos, "timeWindow", [_window(slo) for slo in slos]),
        "slos": made,
    }
    alerts = _common(slos, "alertPolicies", [_alerts(slo, library) for slo in slos])
    if alerts is not None:
        whole["alerting"] = alerts
    try:
        return Objectives.model_validate(whole)
    except ValidationError as error:
        place = error.errors()[0]["loc"]
        if len(place) > 1 and place[0] == "slos" and isinstance(place[1], int):
            slos[place[1]].refuse(first_violation(error).partition("]")[2].lstrip(".: "))
        # Shared values come from the first SLO, as all agree.
        slos[0].refuse(f"spec.{first_violation(error)}")


_Value = TypeVar("_Value")


def _common(slos: Sequence[_Document], field: str, values: Sequence[_Value]) -> _Value:
    """Return what all SLOs of a file agree on: our objectives have one of it."""
    for slo, value in zip(slos, values, strict=True):
        if value != values[0]:
            slo.refuse(
                f"spec.{field}: differs from that of SLO {slos[0].metadata.name!r} (expected one for all "
                "SLOs of a file)"
            )
    return values[0]


def _slo(document: _Document, library: _Library) -> Mapping[str, Any]:
    spec: v1.SloSpec = document.spec
    if len(spec.objectives) != 1:
        document.refuse(f"spec.objectives: {len(spec.objectives)} items (expected 1; write an SLO for each)")
    promise = spec.objectives[0]
    for field in ("indicator", "indicatorRef", "compositeWeight"):
        if getattr(promise, field) is not None:
            document.refuse(f"spec.objectives[0].{field}: composite SLO (expected an indicator in spec)")
    indicator, threshold, slice_width = _measured(document, _sli(document, library), promise)
    made = {
        "name": document.metadata.name,
        "description": spec.description,
        "indicator": indicator,
        "budgetingMethod": spec.budgetingMethod.removeprefix("Ratio"),
        "targetPercent": _target_percent(document, promise),
        **threshold,
    }
    width = _slice(document, promise, slice_width)
    return made if width is None else made | {"timeSliceWindow": width}


def _sli(document: _Document, library: _Library) -> v1.Sli:
    spec: v1.SloSpec = document.spec
    if (spec.indicator is None) == (spec.indicatorRef is None):
        document.refuse("spec: expected exactly one of indicator, indicatorRef")
    if spec.indicator is not None:
        return spec.indicator
    found = library.get("SLI", str(spec.indicatorRef), document, "spec.indicatorRef")
    return v1.Sli(metadata=found.metadata, spec=found.spec)


def _measured(
    document: _Document, sli: v1.Sli, promise: v1.OpenSloObjective
) -> tuple[str, dict[str, Any], object]:
    """Return the indicator's name, its op and value where given, and its slices' width.

    The width is that of the source, if it has one.
    """
    sources = sli.spec.sources
    queries = [text for source in sources for text in source.spec.values() if isinstance(text, str)]
    own = next((source.spec for source in sources if "indicator" in source.spec), {})
    named, by_name = own.get("indicator"), sli.metadata.name.replace("-", "_")
    if named is None and by_name in INDICATORS:
        named = by_name
    if named is None:
        named = next(
            (name for series, name in SERIES.items() if any(series in text for text in queries)), None
        )
    if named not in INDICATORS:
        wanted = named if named is not None else sli.metadata.name
        document.refuse(
            f"indicator: {wanted!r} measures nothing that slo-pipeline knows (expected "
            f"metricSource.spec.indicator to be one of {', '.join(INDICATORS)})"
        )
    op, value = (own.get(field, getattr(promise, field)) for field in ("op", "value"))
    if value is None:
        op = None
    bound = next(filter(None, map(_BOUND.search, queries)), None)
    if named == "send_latency" and value is None and bound is not None:
        op, value = "lte", float(bound[1]) * _MS_PER_S
    threshold = {field: given for field, given in (("op", op), ("value", value)) if given is not None}
    return named, threshold, own.get("timeSliceWindow")


def _target_percent(document: _Document, promise: v1.OpenSloObjective) -> float:
    exact = document.metadata.annotations.get(TARGET_PERCENT)
    if exact is not None:
        try:
            return float(exact)
        except ValueError:
            document.refuse(f"metadata.annotations[{TARGET_PERCENT}]: {exact!r} (expected a number)")
    if promise.targetPercent is not None:
        return promise.targetPercent
    return round((promise.target or 0.0) * 100.0, 10)


def _slice(document: _Document, promise: v1.OpenSloObjective, own: object) -> object:
    """Return the width of a slice; None is the indicator's own."""
    method, given = document.spec.budgetingMethod, promise.timeSliceWindow
    field = "spec.objectives[0]"
    if method == "Occurrences":
        if given is not None or promise.timeSliceTarget is not None:
            document.refuse(
                f"{field}: timeSliceWindow or timeSliceTarget (expected neither with Occurrences)"
            )
        return own
    if given is None:
        document.refuse(f"{field}.timeSliceWindow: missing (expected a duration such as 1m with {method})")
    if method == "RatioTimeslices":
        return own
    if promise.timeSliceTarget != 1:
        document.refuse(
            f"{field}.timeSliceTarget: {promise.timeSliceTarget!r} (expected 1: a slice is good if all of it "
            "is)"
        )
    return f"{given}m" if isinstance(given, int) else given


def _window(document: _Document) -> Mapping[str, Any]:
    if not document.spec.timeWindow:
        return {}
    window: v1.OpenSloTimeWindow = document.spec.timeWindow[0]
    if window.calendar is not None:
        document.refuse("spec.timeWindow[0].calendar: windows are rolling (expected isRolling: true)")
    count, unit = int(window.duration[:-1]), window.duration[-1]
    days = CALENDAR_DAYS.get(unit)
    return {"duration": window.duration if days is None else f"{count * days}d"}


def _alerts(document: _Document, library: _Library) -> list[BurnAlert] | None:
    """Return the burn alerts of an SLO's policies; None if it names none."""
    items = document.spec.alertPolicies
    return None if items is None else [_alert(item, document, library) for item in items]


def _alert(item: v1.PolicyItem, document: _Document, library: _Library) -> BurnAlert:
    owner, policy = document, item.spec
    if policy is None:
        owner = library.get("AlertPolicy", str(item.alertPolicyRef), document, "spec.alertPolicies")
        policy = owner.spec
    if not policy.alertWhenBreaching or policy.alertWhenNoData:
        owner.refuse("spec: expected alertWhenBreaching: true, and no alertWhenNoData")
    condition = policy.conditions[0]
    spec, metadata = condition.spec, condition.metadata
    if spec is None:
        owner = library.get("AlertCondition", str(condition.conditionRef), owner, "spec.conditions[0]")
        spec, metadata = owner.spec, owner.metadata
    burn = spec.condition
    if burn.op not in ("gt", "gte"):
        owner.refuse(f"condition.op: {burn.op!r} (expected gt or gte)")
    if int(burn.alertAfter[:-1]):
        owner.refuse(f"condition.alertAfter: {burn.alertAfter!r} (expected 0m: a short window does its work)")
    annotations = {} if metadata is None else metadata.annotations
    alert = {
        "severity": spec.severity,
        "threshold": burn.threshold,
        "lookbackWindow": burn.lookbackWindow,
        "shortWindow": annotations.get(SHORT_WINDOW) or _short(burn.lookbackWindow),
    }
    try:
        return BurnAlert.model_validate(alert)
    except ValidationError as error:
        owner.refuse(f"condition: {first_violation(error)}")


def _short(window: str) -> str:
    try:
        return f"{max(1, seconds(window) // SHORT_WINDOW_SHARE // 60)}m"
    except ValueError:
        return window
