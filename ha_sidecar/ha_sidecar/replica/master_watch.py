"""Ask a majority of the controllers for the master: by a timer, and whenever a notice announces a change.

Any process that reaches the replica's port can send a notice (1008); nothing authenticates it. So a notice is
a hint to ask. The replica never follows or leaves a master, and never cuts or archives its log, because of
what a notice contains.

    notice of a newer epoch, or of a newer set   ask at once, then again after `ASK_AGAIN_S`, twice that and
                                                 so on up to `ASK_AGAIN_S_MAX`, until a majority tells that
                                                 epoch or `HINT_S` are over
    notice of an epoch or a set that is known    nothing: the timer asks often enough
    notice to part from the master               ask whether the controllers take that master for dead, or are
                                                 about to replace it; part only then

False notices cost the controllers one question each `ASK_AGAIN_S`, and delay a true notice by no more than
that.

A controller that replaces a living master holds its answer to 1004 until all brokers have the notice. So the
replica leaves a master that 1006 shows alive only if 1004 stays unanswered for `HELD_S`. An answer that names
this master says that no controller replaces it.

Source: ReplicasManager.java (poll of 1004), NOTIFY_BROKER_ROLE_CHANGED 5.4.0.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from controller_core.channel import ChannelError
from controller_core.channel.asking import AskError
from controller_core.remoting.bodies import SyncStateSet
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.errors import BodyError, HeaderError, RemotingProtocolError
from controller_core.remoting.headers import (
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    NotifyBrokerRoleChangedRequestHeader,
)
from ha_sidecar.common.controllers import Controllers, ControllersUnavailableError
from ha_sidecar.common.questions import ask_group
from ha_sidecar.decisions.broker_facts import GroupName
from ha_sidecar.replica.group_view import FollowedGroup
from ha_sidecar.replica.metrics import NoticeCounts
from ha_sidecar.replica.registration import RegistrationRefusedError

POLL_S: Final = 1.0
POLL_JOINING_S: Final = 0.2
"""While connected and not yet in the set."""
POLL_HURRIED_S: Final = 0.02
HURRY_S: Final = 5.0
"""How long polls are hurried after an HA link ended: longer than any election takes."""
HINT_S: Final = 3.0
"""How long a notice is believed to be early; controllers repeat theirs for as long."""
ASK_AGAIN_S: Final = 0.05
ASK_AGAIN_S_MAX: Final = 0.4
PART_ASKED_WITHIN_S: Final = 0.2
"""The controllers wait 0.4 s for a replica that they asked to part."""
HELD_S: Final = 0.05
PART_PAUSE_S: Final = 0.02
PARTINGS_MAX: Final = 8
"""Notices to part that are looked into at a time, one after the other; further ones are refused."""
WARN_EVERY_S: Final = 1.0

_log = logging.getLogger(__name__)
_TROUBLE: Final = (
    ControllersUnavailableError,
    RegistrationRefusedError,
    RemotingProtocolError,
    ChannelError,
    AskError,
)

Learn = Callable[[GetReplicaInfoResponseHeader, SyncStateSet | None, int], Awaitable[None]]
"""Takes an answer, its SyncStateSet, and the view's version when the question began."""


@dataclass(frozen=True, slots=True)
class _MasterHint:
    """What a notice claims: epochs of the master and of the SyncStateSet, -1 for a missing one."""

    epoch: int
    set_epoch: int


class MasterWatch:
    """Asks for the master, and learns it."""

    def __init__(
        self,
        key: GroupName,
        controllers: Controllers,
        view: FollowedGroup,
        learn: Learn,
        register: Callable[[], Awaitable[None]],
        is_following: Callable[[], bool],
    ) -> None:
        """Take the group's name and the parts.

        Args:
            key: its cluster and brokerName.
            controllers: the controllers to ask.
            view: the known state; changed by `learn` only.
            learn: called with each answer that a majority vouches for.
            register: called when the controllers do not know this replica: they lost their stores.
            is_following: says whether an HA link exists; without one polls are hurried after `ask_often`.
        """
        self.counts: Final = NoticeCounts()
        self._key: Final = key
        self._controllers: Final = controllers
        self._view: Final = view
        self._learn: Final = learn
        self._register: Final = register
        self._is_following: Final = is_following
        self._hurry_until_s = 0.0
        self._poll_now: Final = asyncio.Event()
        self._noticed: _MasterHint | None = None
        self._notice_came: Final = asyncio.Event()
        self._hint: asyncio.Task[None] | None = None
        self._parting: Final = asyncio.Lock()
        self._partings = 0
        self._warn_after_s = 0.0

    async def run(self) -> None:
        """Ask by the timer until cancelled."""
        try:
            while True:
                try:
                    await self.ask()
                except _TROUBLE as error:
                    _log.warning("poll: %s", error)
                await self._wait()
        finally:
            if self._hint is not None:
                self._hint.cancel()
                await asyncio.gather(self._hint, return_exceptions=True)

    def ask_often(self) -> None:
        """Ask at once and often: a master was lost."""
        self._hurry_until_s = _now_s() + HURRY_S
        self._poll_now.set()

    async def ask(self) -> None:
        """Ask a majority once, and learn what it says; register again if it does not know this replica.

        Raises:
            ControllersUnavailableError: no majority vouches for an answer.
            RegistrationRefusedError: the controllers refuse the registration.
            RemotingProtocolError: the answer cannot be read.
        """
        version = self._view.version
        header = GetReplicaInfoRequestHeader(self._key.broker_name, self._key.cluster)
        command = RemotingCommand.request(RequestCode.CONTROLLER_GET_REPLICA_INFO, header.to_ext())
        answer = await self._controllers.ask(command)
        if answer.code == ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST:
            await self._register()
        if answer.code != ResponseCode.SUCCESS:
            return
        members = SyncStateSet.decode(answer.body) if answer.body else None
        await self._learn(GetReplicaInfoResponseHeader.from_ext(answer.ext), members, version)

    def hint(self, notice: NotifyBrokerRoleChangedRequestHeader, members: SyncStateSet | None) -> None:
        """Take a checked notice that names a master: ask whether it is so, unless it says nothing new.

        Raises:
            BodyError: the epoch of the set is out of range.
        """
        if members is not None and members.sync_state_set_epoch < 0:
            problem = f"syncStateSetEpoch={members.sync_state_set_epoch}: expected at least 0"
            raise BodyError(type(members).__name__, problem)
        hint = _MasterHint(
            -1 if notice.master_epoch is None else notice.master_epoch,
            -1 if members is None else members.sync_state_set_epoch,
        )
        if self._is_known(hint):
            self.counts.known += 1
            return
        self._noticed = hint
        self._notice_came.set()
        if self._hint is None or self._hint.done():
            self._hint = asyncio.ensure_future(self._follow_hints())

    async def is_being_replaced(self, epoch: int) -> bool:
        """Return whether a majority takes the master of this epoch for dead, or is about to replace it."""
        is_so = False
        if self._partings < PARTINGS_MAX:
            self._partings += 1
            try:
                async with self._parting:
                    is_so = await self._is_replaced_now(epoch)
                    if not is_so:
                        await asyncio.sleep(PART_PAUSE_S)
            finally:
                self._partings -= 1
        self._count(f"to part from the master of epoch {epoch}", is_so=is_so)
        return is_so

    def refused(self, error: RemotingProtocolError) -> None:
        """Count a notice that cannot be read."""
        self.counts.refused += 1
        self._warn("a notice is refused: %s", str(error))

    async def _is_replaced_now(self, epoch: int) -> bool:
        with contextlib.suppress(*_TROUBLE, TimeoutError):
            async with asyncio.timeout(PART_ASKED_WITHIN_S):
                group = await ask_group(self._controllers, *self._key)
                if group.master_id is None or group.master_epoch != epoch:
                    return False
                is_alive = any(alive for broker_id, _, alive in group.others if broker_id == group.master_id)
                return not is_alive or await self._is_answer_held()
        return False

    async def _is_answer_held(self) -> bool:
        try:
            async with asyncio.timeout(HELD_S):
                await self.ask()
        except TimeoutError:
            return True
        return False

    async def _follow_hints(self) -> None:
        while (hint := self._noticed) is not None:
            self._noticed = None
            until_s = _now_s() + HINT_S
            await self._ask_until(hint, until_s)
            what = f"of epoch {hint.epoch}, SyncStateSet epoch {hint.set_epoch}"
            self._count(what, is_so=self._is_known(hint))

    async def _ask_until(self, hint: "_MasterHint", until_s: float) -> None:
        pause_s = ASK_AGAIN_S
        while True:
            self._notice_came.clear()
            try:
                await self.ask()
            except _TROUBLE as error:
                _log.debug("asked because of a notice: %s", error)
            if self._is_known(hint) or _now_s() >= until_s:
                return
            await asyncio.sleep(ASK_AGAIN_S)
            # A notice that came in between may be a true one, whatever this one is.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s - ASK_AGAIN_S):
                    await self._notice_came.wait()
            pause_s = min(2 * pause_s, ASK_AGAIN_S_MAX)

    def _is_known(self, hint: "_MasterHint") -> bool:
        return hint.epoch <= self._view.role.epoch and hint.set_epoch <= self._view.members_epoch

    def _count(self, what: str, *, is_so: bool) -> None:
        if is_so:
            self.counts.confirmed += 1
            return
        self.counts.unconfirmed += 1
        self._warn("no majority of the controllers confirms the notice %s", what)

    def _warn(self, text: str, detail: str) -> None:
        now_s = _now_s()
        if now_s >= self._warn_after_s:
            self._warn_after_s = now_s + WARN_EVERY_S
            _log.warning(text, detail)

    async def _wait(self) -> None:
        if not self._is_following() and _now_s() < self._hurry_until_s:
            await asyncio.sleep(POLL_HURRIED_S)
            return
        self._poll_now.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_JOINING_S if self._view.is_joining else POLL_S):
                await self._poll_now.wait()


def check_notice(notice: NotifyBrokerRoleChangedRequestHeader) -> None:
    """Raise `HeaderError` if a number of the notice is below 0; upper bounds are Java's."""
    for field, value in (
        ("masterEpoch", notice.master_epoch),
        ("syncStateSetEpoch", notice.sync_state_set_epoch),
        ("masterBrokerId", notice.master_broker_id),
        ("partWaitMs", notice.part_wait_ms),
    ):
        if value is not None and value < 0:
            raise HeaderError(type(notice).__name__, field, str(value), "expected at least 0")


def _now_s() -> float:
    return asyncio.get_running_loop().time()
