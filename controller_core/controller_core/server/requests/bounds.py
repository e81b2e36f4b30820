"""Refuses requests whose texts or lists pass their bounds, before anything is done with them.

Every request of the remoting port comes by here first, so no handler, table, command or forwarded copy meets
a text of a size that a peer chose. The bounds are in `remoting.text_bounds`; the remark names field, length
and bound.
"""

from collections.abc import Callable, Sequence
from typing import Final

from controller_core.groups.group import FIRST_BROKER_ID, Group, group_ext
from controller_core.groups.keys import BrokerId
from controller_core.groups.members.broker_ids import id_problem, take_up_refusal
from controller_core.groups.replies import GroupReply
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import BodyError, HeaderError
from controller_core.remoting.headers import (
    ApplyBrokerIdRequestHeader,
    RegisterBrokerToControllerRequestHeader,
)
from controller_core.remoting.text_bounds import (
    GROUP_MEMBERS_MAX,
    NAME_BYTES_MAX,
    field_problems,
    text_problem,
)

_NAMES: Final = frozenset(("brokerName", "clusterName"))


def check_texts(request: RemotingCommand, is_known: Callable[[str, str], bool]) -> None:
    """Refuse a request with a header field that passes its bound.

    Names in a request to clean a group (1011) may be longer if `is_known(broker_name, cluster)`: an
    administrator must be able to remove what an older release let in.

    Raises:
        HeaderError: names the field, its length and the bound.
    """
    ext = request.ext
    if ext is None:
        return
    for field, problem in field_problems(ext):
        is_cleaning = request.code == RequestCode.CLEAN_BROKER_DATA and field in _NAMES
        if not (is_cleaning and is_known(ext.get("brokerName", ""), ext.get("clusterName", ""))):
            raise HeaderError(f"request {request.code}", field, ext[field], problem)


def check_names(names: Sequence[str]) -> None:
    """Refuse the body of a 1006 with a name that no group can have.

    Raises:
        BodyError: names the length and the bound.
    """
    for name in names:
        if (problem := text_problem(name, NAME_BYTES_MAX)) is not None:
            raise BodyError("names", f"a broker name {problem}")


def check_set(wanted: SyncStateSet) -> None:
    """Refuse a 1001 with more ids than a group has members.

    Raises:
        BodyError: names the count and the bound.
    """
    count = len(wanted.sync_state_set)
    if count > GROUP_MEMBERS_MAX:
        raise BodyError(
            "SyncStateSet", f"syncStateSet has {count} ids, at most {GROUP_MEMBERS_MAX} are allowed"
        )


def refused_claim(group: Group | None, header: ApplyBrokerIdRequestHeader) -> GroupReply | None:
    """Return the refusal of a claim (1013) of an impossible id, or above the bound of a group, else None.

    The state machine itself answers claims of ids below 1, of ids that the group has, and for a group that is
    not there.
    """
    broker_id = BrokerId(header.applied_broker_id)
    if group is None or broker_id < FIRST_BROKER_ID or broker_id in group.replicas:
        return None
    if (problem := id_problem(group, broker_id)) is not None:
        remark = f"Fail to apply brokerId: {broker_id} in broker-set: {header.broker_name}: {problem}"
    elif (too_many := _count_problem(group)) is not None:
        remark = f"Broker-set: {header.broker_name} {too_many}"
    else:
        return None
    ext = group_ext(header.cluster_name, header.broker_name)
    return GroupReply(ResponseCode.CONTROLLER_BROKER_ID_INVALID, ext, remark)


def refused_take_up(
    group: Group | None, header: RegisterBrokerToControllerRequestHeader
) -> GroupReply | None:
    """Return the refusal of a registration (1003) of an impossible id, or above the bound of a group.

    None if it may be proposed.
    """
    problem = id_problem(group, BrokerId(header.broker_id))
    if problem is None and group is not None and (too_many := _count_problem(group)) is not None:
        problem = f"the group {too_many}"
    if problem is None:
        return None
    return take_up_refusal(header.cluster_name, header.broker_name, header.broker_id, problem)


def _count_problem(group: Group) -> str | None:
    """Return how many brokers a full group has, and the bound; None if it may have one more."""
    count = len(group.replicas)
    if count < GROUP_MEMBERS_MAX:
        return None
    return f"has {count} brokers, at most {GROUP_MEMBERS_MAX} are allowed"
