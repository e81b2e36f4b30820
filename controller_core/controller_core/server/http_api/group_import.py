"""Take groups over from other controllers (POST /v1/import): check, propose, tell the brokers.

The leader checks what only it knows: that it stands by, and that every member which the other controllers
call alive sends its heartbeats here too. Without that, a master that is missing here would look dead, and
another member would be elected beside it. What the state must check is in `groups.members.imported_groups`.

After the entry is applied, the notices (1008) bring the higher epoch to the brokers at once.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller_core.error_text import error_text
from controller_core.groups.commands import ImportedGroup, ImportGroups
from controller_core.groups.keys import BrokerId, GroupKey
from controller_core.groups.members.imported_groups import EPOCH_MARGIN, import_problem
from controller_core.remoting.codes import ResponseCode
from controller_core.server.clock import Clock
from controller_core.server.common import json_views
from controller_core.server.common.http_errors import HttpError
from controller_core.server.elections.heartbeats import HeartbeatReceiver
from controller_core.server.node.types import CommandDroppedError, NotLeaderError, ProposalLostError
from controller_core.server.proposals.submission import CommandSubmitter

ANSWER_WITHIN_S: Final = 4.0


class GroupImport:
    """Imports groups on the leader."""

    def __init__(
        self,
        heartbeats: HeartbeatReceiver,
        submitter: CommandSubmitter,
        clock: Clock,
        standby: Callable[[], bool],
    ) -> None:
        self._heartbeats = heartbeats
        self._submitter = submitter
        self._clock = clock
        self._standby = standby

    async def run(self, told: list[Any], *, only_check: bool) -> json_views.Json:
        """Check groups as the request names them, and import them unless `only_check`.

        Their `alive` names the members that live by the other controllers.

        Raises:
            HttpError: they cannot be imported; the text says why.
        """
        try:
            groups = msgspec.convert(told, tuple[ImportedGroup, ...])
        except msgspec.ValidationError as error:
            raise HttpError(400, str(error), field="groups") from error
        if not self._standby():
            raise HttpError(
                409, "these controllers do not stand by (controllerStandby=true and no group yet)"
            )
        problems = [problem] if (problem := import_problem(groups)) else list(self._problems(groups))
        if problems:
            raise HttpError(409, "; ".join(problems), field="groups")
        heard = tuple(replace(group, alive=tuple(sorted(self._heard(group)))) for group in groups)
        if not only_check:
            await self._import(heard)
        return {"groups": [_view(group) for group in heard], "imported": not only_check}

    async def _import(self, groups: tuple[ImportedGroup, ...]) -> None:
        command = ImportGroups(cluster="", broker_name="", stamp=self._clock.stamp(), groups=groups)
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                outcome = await self._submitter.submit(command)
                if outcome.reply.code != ResponseCode.SUCCESS:
                    raise HttpError(409, outcome.reply.remark or outcome.reply.code.name, field="groups")
                await self._submitter.follow_up.after(outcome, self._clock.stamp(), writes_stopped=False)
        except (NotLeaderError, CommandDroppedError, ProposalLostError, TimeoutError) as error:
            problem = f"the result of the import is unknown, look at the groups: {error_text(error)}"
            raise HttpError(503, problem) from error

    def _problems(self, groups: tuple[ImportedGroup, ...]) -> Iterator[str]:
        named = {GroupKey(group.cluster, group.broker_name) for group in groups}
        for key in self._heartbeats.unregistered.groups():
            if key not in named:
                yield f"brokers of {key} send heartbeats to this controller, and the group is not named"
        for group in groups:
            name = f"{group.cluster}/{group.broker_name}"
            heard = self._heard(group)
            for broker_id in group.alive:
                if broker_id not in heard:
                    yield f"broker {broker_id} of {name} sends no heartbeats to this controller"
            for broker_id in heard.keys() - {member.id for member in group.members}:
                yield f"broker {broker_id} of {name} sends heartbeats and is not recorded"
            if any(epoch > group.master_epoch + EPOCH_MARGIN for epoch in heard.values()):
                yield f"a broker of {name} tells a later epoch than the recorded {group.master_epoch}"
            if group.master_id is not None and group.master_id not in heard:
                yield f"the master of {name}, broker {group.master_id}, does not live: wait for another one"

    def _heard(self, group: ImportedGroup) -> dict[BrokerId, int]:
        """Return the epochs that living members of a group told, by id."""
        key = GroupKey(group.cluster, group.broker_name)
        return {member.id: member.epoch for member in self._heartbeats.unregistered.alive(key)}


def _view(group: ImportedGroup) -> json_views.Json:
    return {
        "cluster": group.cluster,
        "name": group.broker_name,
        "master_id": group.master_id,
        "master_epoch": group.master_epoch,
        "set_epoch": group.set_epoch,
        "sync_state_set": list(group.sync_state_set),
        "next_broker_id": group.next_broker_id,
        "members": [{"id": member.id, "address": member.address} for member in group.members],
        "alive": list(group.alive),
    }
