"""A fake broker with users and rights: it refuses unsigned requests, and takes changes as a broker does."""

from controller_core.channel import Connection
from controller_core.remoting.codes import RequestCode, ResponseCode
from controller_core.remoting.command import RemotingCommand
from controller_core.remoting.signing import Credentials, signed
from controller_core.remoting.users import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from ha_sidecar.decisions.user_comparison import Right, UserTable
from testkit.fakes.answering_broker import AnsweringBroker

SIGNER = Credentials("inner", "inner-password")


class UserBroker(AnsweringBroker):
    """One broker of a group.

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
            case RequestCode.AUTH_CREATE_USER | RequestCode.AUTH_UPDATE_USER:
                self.users[ext["username"]] = UserInfo.decode(body)
            case RequestCode.AUTH_DELETE_USER:
                del self.users[ext["username"]]
            case RequestCode.AUTH_UPDATE_ACL:
                self.rights |= UserTable.of([], [AclInfo.decode(body)]).rights
            case RequestCode.AUTH_DELETE_ACL:
                del self.rights[ext["subject"], ext["policyType"], ext["resource"]]
        return b""
