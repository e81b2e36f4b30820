"""A fake broker that also answers requests, and a fake name server.

Asked for its epochs (1007), slaves (907) and settings (26), it answers as a broker does. It
takes the role that the controllers' notices give it, and says so at once.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controller_core.access.signing import Credentials, signed
from controller_core.access.user_table import Right, UserTable
from controller_core.access.users import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from controller_core.broker_settings import SENDS_FROM
from controller_core.channel import Connection, Server, serve
from controller_core.remoting.bodies import (
    EpochEntryBody,
    EpochEntryCache,
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
)
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.headers import NotifyBrokerRoleChangedRequestHeader
from controller_core.remoting.routes import BrokerData, ClusterInfo
from controller_core.server.settings import properties
from controller_core.server.write_guards.write_guard import OUT_OF_REACH
from testkit.fakes.broker import FakeBroker

SIGNER: Final = Credentials("inner", "inner-password")
"""The user whose signature a `UserBroker` takes."""


class AnsweringBroker(FakeBroker):
    """One broker of a group.

    Attributes:
        is_master: what it takes itself for.
        has_role: whether the controllers have given it a role since it started.
        takes_notices: whether it takes the role that a notice gives it.
        tells_its_epochs: whether it answers request 1007.
        slaves: what it says of its slaves while it is master; with none they are caught up
            while its writes are stopped.
        is_log_replica: whether it refuses request 28, as log replicas do.
        min_in_sync_replicas: its setting of that name, the one that can be set; None if it does not tell.
        sends_from_ms: the time from which it takes sends, which can be set too.
        takes_settings: whether it answers when somebody sets it.
        settings: what else it answers to request 26.
        topics: its answer to request 21; None if it does not answer that.
        refusal: what it says when somebody makes a topic; empty if it takes it.
        access_refusal: what it says to all but notices, as access control does; empty if it answers.
    """

    is_master = False
    has_role = True
    takes_notices = True
    tells_its_epochs = True
    is_log_replica = False
    slaves: tuple[HAConnectionRuntimeInfo, ...] = ()
    sends_from_ms = 0
    takes_settings = True
    settings: Mapping[str, str] = MappingProxyType({})
    topics: bytes | None = None
    refusal = ""
    access_refusal = ""

    def become_master(self, epoch: int) -> None:
        """Take the office that an election gave it in its answer, which is not a notice."""
        self.is_master, self.epoch = True, epoch

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        if self.access_refusal and request.code != RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
            return RemotingCommand.response_to(
                request, ResponseCode.NO_PERMISSION, remark=self.access_refusal
            )
        match request.code:
            case RequestCode.NOTIFY_BROKER_ROLE_CHANGED:
                notice = NotifyBrokerRoleChangedRequestHeader.from_ext(request.ext)
                if self.takes_notices and (notice.master_epoch or 0) >= self.epoch:
                    self.is_master = notice.master_broker_id == self.broker_id
                return super()._on_request(connection, request)
            case RequestCode.GET_BROKER_EPOCH_CACHE if self.tells_its_epochs:
                body = self._epochs().encode()
            case RequestCode.GET_BROKER_HA_STATUS:
                body = self._status().encode()
            case RequestCode.EXCHANGE_BROKER_HA_INFO:
                return super()._on_request(connection, request)
            case RequestCode.GET_BROKER_CONFIG if not self.is_log_replica:
                host, _, port = self.address.rpartition(":")
                text = f"brokerClusterName={self.cluster}\nlistenPort={port}\nbrokerIP1={host}\n"
                text += "".join(f"{name}={value}\n" for name, value in self.settings.items())
                if self.min_in_sync_replicas is not None:
                    text += f"minInSyncReplicas={self.min_in_sync_replicas}\n"
                    text += f"{SENDS_FROM}={self.sends_from_ms}\n"
                body = text.encode()
            case RequestCode.GET_ALL_TOPIC_CONFIG if self.topics is not None:
                body = self.topics
            case RequestCode.UPDATE_AND_CREATE_TOPIC if self.refusal:
                return RemotingCommand.response_to(request, ResponseCode.SYSTEM_ERROR, remark=self.refusal)
            case RequestCode.UPDATE_AND_CREATE_TOPIC if self.topics is not None:
                self.topics = f'{{"topicConfigTable":{{"{(request.ext or {})["topic"]}":{{}}}}}}'.encode()
                body = b""
            case RequestCode.UPDATE_BROKER_CONFIG if (
                self.takes_settings and self.min_in_sync_replicas is not None
            ):
                values, body = properties.parse(request.body.decode()), b""
                self.min_in_sync_replicas = int(values["minInSyncReplicas"])
                self.sends_from_ms = int(values.get(SENDS_FROM, self.sends_from_ms))
            case _:
                return RemotingCommand.response_to(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=body)

    def _epochs(self) -> EpochEntryCache:
        entries = (EpochEntryBody(2**63 - 1, self.epoch, 0),) if self.epoch else ()
        # A master's id is the one that name servers list it under.
        broker_id = 0 if self.is_master else self.broker_id
        return EpochEntryCache(broker_id, self.group, self.cluster, entries, self.max_offset)

    def _status(self) -> HARuntimeInfo:
        slaves = self.slaves if self.is_master else ()
        if self.is_master and not slaves and (self.min_in_sync_replicas or 0) >= OUT_OF_REACH:
            slaves = self.caught_up()
        return HARuntimeInfo(
            HAClientRuntimeInfo(),
            slaves,
            sum(slave.in_sync for slave in slaves) if self.has_role else -1,
            self.is_master,
            self.max_offset,
        )


class UserBroker(AnsweringBroker):
    """One with users and rights: it refuses unsigned requests about them, and takes signed ones.

    Attributes:
        users: those that it has besides the one of `SIGNER`.
        rights: entries by subject, policy type and resource.
        tells_users: whether it answers requests about users at all.
        refused_users: names that it refuses to take.
    """

    users: dict[str, UserInfo]
    rights: dict[Right, PolicyEntryInfo]
    tells_users = True
    refused_users: frozenset[str] = frozenset()

    def has(self, table: UserTable) -> None:
        """Make this the table."""
        self.users, self.rights = dict(table.users), dict(table.rights)

    @property
    def table(self) -> UserTable:
        """What it has."""
        return UserTable(self.users, self.rights)

    def _on_request(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        ext = request.ext or {}
        if request.code < RequestCode.AUTH_CREATE_USER:
            return super()._on_request(connection, request)
        if ext != signed(request, SIGNER).ext:
            return RemotingCommand.response_to(
                request, ResponseCode.NO_PERMISSION, remark="check signature failed."
            )
        if not self.tells_users or ext.get("username") in self.refused_users:
            return RemotingCommand.response_to(request, ResponseCode.SYSTEM_ERROR, remark="not configured")
        return RemotingCommand.response_to(
            request, ResponseCode.SUCCESS, body=self._answer(request.code, ext, request.body)
        )

    def _answer(self, code: int, ext: dict[str, str], body: bytes) -> bytes:
        match code:
            case RequestCode.AUTH_LIST_USER:
                inner = UserInfo(SIGNER.username, SIGNER.password, "Super", "enable")
                return b"[" + b",".join(user.encode() for user in (inner, *self.users.values())) + b"]"
            case RequestCode.AUTH_LIST_ACL:
                acls = [
                    AclInfo(subject, (PolicyInfo(policy_type, (entry,)),)).encode()
                    for (subject, policy_type, _), entry in self.rights.items()
                ]
                return b"[" + b",".join(acls) + b"]" if acls else b""
            case RequestCode.AUTH_GET_USER:
                user = self.users.get(ext["username"])
                return b"" if user is None else user.encode()
            case RequestCode.AUTH_GET_ACL:
                found = [(one[1], entry) for one, entry in self.rights.items() if one[0] == ext["subject"]]
                policies = tuple(PolicyInfo(policy_type, (entry,)) for policy_type, entry in found)
                return AclInfo(ext["subject"], policies).encode() if found else b""
            case RequestCode.AUTH_CREATE_USER | RequestCode.AUTH_UPDATE_USER:
                self.users[ext["username"]] = UserInfo.decode(body)
            case RequestCode.AUTH_DELETE_USER:
                del self.users[ext["username"]]
                gone = f"User:{ext['username']}"
                self.rights = {right: entry for right, entry in self.rights.items() if right[0] != gone}
            case RequestCode.AUTH_UPDATE_ACL:
                self.rights |= UserTable.of([], [AclInfo.decode(body)]).rights
            case RequestCode.AUTH_DELETE_ACL:
                del self.rights[ext["subject"], ext["policyType"], ext["resource"]]
        return b""


class FakeNameServer:
    """Answers queries for the master (106) with the value that a test sets.

    Attributes:
        masters: address of each group's master.
        asked: how many questions came.
    """

    def __init__(self) -> None:
        self.masters: dict[str, str] = {}
        self.asked = 0
        self._server: Server | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; return where."""
        self._server = await serve("127.0.0.1", 0, self._accept)
        return "127.0.0.1", self._server.port

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.close()

    def _accept(self, connection: Connection) -> None:
        connection.on_request = self._on_request

    def _on_request(self, _: Connection, request: RemotingCommand) -> RemotingCommand:
        self.asked += 1
        table = {name: BrokerData(name, "c1", {0: address}) for name, address in self.masters.items()}
        return RemotingCommand.response_to(request, ResponseCode.SUCCESS, body=ClusterInfo(table).encode())
