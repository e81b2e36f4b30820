"""Failover: the record of one change of master, made by the operator from the controllers' history.

The spec holds what the election decided and never changes; the status holds what became known afterwards.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import Rule, SpecModel, StatusModel, kept_by
from rocketmq_operator.api.broker_group import MEMBERS_MAX

ResourceName = Annotated[str, Field(max_length=253)]
BrokerIds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(max_length=4 * MEMBERS_MAX)]
PHASES_MAX: Final = 7


class FailoverSpec(SpecModel):
    """What the election decided."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="Unchangeable",
            expression="self == oldSelf",
            message="'the record of %s epoch %d cannot change'.format([self.group, self.newEpoch])",
            reason="FieldValueForbidden",
        ),
    )

    cluster: ResourceName
    """Name of the cluster."""
    group: ResourceName
    """Name of the group."""
    correlation_id: ResourceName
    """What joins this with events, samples and reports: <cluster>/<group>/<new epoch>."""
    cause: ResourceName
    """Why the old master was lost or replaced."""
    from_: Annotated[ResourceName, Field(alias="from")] = ""
    """The old master, by the name that it had when this record was made."""
    to: ResourceName
    """The new master, named likewise."""
    reelection: bool = False
    """Whether the master that was lost was elected again, because no other broker could be, or none was
    needed any more."""
    old_epoch: Annotated[int, Field(ge=0)]
    """Master epoch before."""
    new_epoch: Annotated[int, Field(ge=0)]
    """Master epoch after."""
    sync_state_set_before: BrokerIds = ()
    """Broker ids in the SyncStateSet before."""
    sync_state_set_after: BrokerIds = ()
    """Broker ids in the SyncStateSet after."""
    unclean: bool = False
    """Whether the new master was outside the SyncStateSet."""


class FailoverPhase(StatusModel):
    """One moment of a failover."""

    name: Annotated[str, Field(max_length=32)]
    """LastHeartbeat, Suspected, Proposed, Committed, Noticed, RoleTaken or FirstBeat."""
    at: datetime
    """When, by the clock of the controllers' leader, in microseconds."""
    after_ms: int
    """Milliseconds after the suspicion, or after the proposal if there was no suspicion."""


class FailoverStatus(StatusModel):
    """What became known afterwards."""

    phases: Annotated[
        tuple[FailoverPhase, ...],
        Field(
            max_length=PHASES_MAX,
            json_schema_extra=kept_by("name"),
        ),
    ] = ()
    """The moments that were seen, in their order."""
    took: Annotated[str, Field(max_length=32)] = ""
    """From suspicion to the new master's first act in its epoch, for instance 120ms."""
    write_gap: Annotated[str, Field(max_length=32)] | None = None
    """Longest time without an acknowledged write around the change, by a canary: 512ms; <100ms where it saw
    none so long."""
    page: Annotated[str, Field(max_length=1024)] = ""
    """Where reports tell of it, for those inside the cluster, as soon as one has been made; empty where no
    report server is."""
    lost_messages: Annotated[int, Field(ge=0)] | None = None
    """Acknowledged messages of a canary that are gone; empty until it has read all of them back."""
