"""Where a pod may run: Kubernetes' affinity and topology spread as closed models.

Why models and not free objects: the API server then refuses a misspelt field when a person writes it. Every
field is absent unless a person gives it, so that a stored object contains only the text of that person. Rare
fields such as `namespaceSelector` are left to `podOverride`, because the definitions contain this five times.

Source: Kubernetes 1.34 core/v1 Affinity, TopologySpreadConstraint; meta/v1 LabelSelector.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from rocketmq_operator.api.base import KEPT_WHOLE, SpecModel

KEY_LENGTH_MAX: Final = 317
"""Of a label's key: a prefix of 253 characters, a slash and a name of 63."""
TERMS_MAX: Final = 8
EXPRESSIONS_MAX: Final = 8
VALUES_MAX: Final = 16
LABELS_MAX: Final = 16
Key = Annotated[str, Field(min_length=1, max_length=KEY_LENGTH_MAX)]
LabelValue = Annotated[str, Field(max_length=63)]
LabelKeys = Annotated[tuple[Key, ...], Field(max_length=LABELS_MAX, json_schema_extra=KEPT_WHOLE)]
Values = Annotated[tuple[LabelValue, ...], Field(max_length=VALUES_MAX, json_schema_extra=KEPT_WHOLE)]
Weight = Annotated[int, Field(ge=1, le=100)]


class LabelExpression(SpecModel):
    """A demand on one label."""

    key: Key
    """Of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How label and values are compared."""
    values: Values | None = None
    """For In and NotIn."""


class LabelSelector(SpecModel):
    """Which pods or namespaces, by their labels; all of it must hold."""

    match_labels: Annotated[dict[str, LabelValue], Field(max_length=LABELS_MAX)] | None = None
    """Labels with these values."""
    match_expressions: (
        Annotated[
            tuple[LabelExpression, ...], Field(max_length=EXPRESSIONS_MAX, json_schema_extra=KEPT_WHOLE)
        ]
        | None
    ) = None
    """Further demands on labels."""


class NodeExpression(SpecModel):
    """A demand on one label of a node."""

    key: Key
    """Of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How it is compared with the values."""
    values: Values | None = None
    """For all operators but Exists and DoesNotExist."""


NodeExpressions = Annotated[
    tuple[NodeExpression, ...], Field(max_length=EXPRESSIONS_MAX, json_schema_extra=KEPT_WHOLE)
]


class NodeTerm(SpecModel):
    """Demands on a node; all of them must hold."""

    match_expressions: NodeExpressions
    """On its labels."""


class PreferredNodes(SpecModel):
    """Nodes that are better than others."""

    weight: Weight
    """How much better, 1 to 100."""
    preference: NodeTerm
    """Which nodes."""


class RequiredNodes(SpecModel):
    """Nodes that will do."""

    node_selector_terms: Annotated[
        tuple[NodeTerm, ...], Field(min_length=1, max_length=TERMS_MAX, json_schema_extra=KEPT_WHOLE)
    ]
    """One of these must hold."""


class NodeAffinity(SpecModel):
    """On which nodes the pod runs."""

    required_during_scheduling_ignored_during_execution: RequiredNodes | None = None
    """Where it must run."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[tuple[PreferredNodes, ...], Field(max_length=TERMS_MAX, json_schema_extra=KEPT_WHOLE)]
        | None
    ) = None
    """Where it should rather run."""


class PodTerm(SpecModel):
    """Other pods, and the place that is shared with them or not."""

    topology_key: Key
    """What a place is: the label of nodes whose values tell places apart."""
    label_selector: LabelSelector | None = None
    """Which pods."""
    namespaces: (
        Annotated[
            tuple[Annotated[str, Field(min_length=1, max_length=63)], ...],
            Field(max_length=LABELS_MAX, json_schema_extra=KEPT_WHOLE),
        ]
        | None
    ) = None
    """Of these namespaces; of the pod's own when absent."""


class PreferredPods(SpecModel):
    """Places that are better than others."""

    weight: Weight
    """How much better, 1 to 100."""
    pod_affinity_term: PodTerm
    """Which pods are there."""


PodTerms = Annotated[tuple[PodTerm, ...], Field(max_length=TERMS_MAX, json_schema_extra=KEPT_WHOLE)]
PreferredTerms = Annotated[
    tuple[PreferredPods, ...], Field(max_length=TERMS_MAX, json_schema_extra=KEPT_WHOLE)
]


class PodAffinity(SpecModel):
    """Near which pods, or apart from which pods, the pod runs."""

    required_during_scheduling_ignored_during_execution: PodTerms | None = None
    """What must hold."""
    preferred_during_scheduling_ignored_during_execution: PreferredTerms | None = None
    """What should rather hold."""


class Affinity(SpecModel):
    """Rules of the scheduler, beside those that `placement` makes."""

    node_affinity: NodeAffinity | None = None
    """On which nodes."""
    pod_affinity: PodAffinity | None = None
    """Near which pods."""
    pod_anti_affinity: PodAffinity | None = None
    """Apart from which pods; added to the operator's own rule, which separates members."""


class TopologySpread(SpecModel):
    """How evenly pods are spread over places."""

    topology_key: Key
    """What a place is: the label of nodes whose values tell places apart."""
    max_skew: Annotated[int, Field(ge=1, le=100)]
    """By how many pods two places may differ."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """Whether a pod that would make it worse waits."""
    label_selector: LabelSelector | None = None
    """Which pods count; the pods of this component of this resource when absent."""
    min_domains: Annotated[int, Field(ge=1, le=100)] | None = None
    """How many places there must be, for DoNotSchedule."""
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    """Whether only nodes count that the pod's node rules allow; Kubernetes' default is Honor."""
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    """Whether only nodes count whose taints the pod tolerates; Kubernetes' default is Ignore."""
    match_label_keys: LabelKeys | None = None
    """Labels of which pods must have this pod's own values."""
