"""The users and rights of a broker as a table, and the requests that change one table into another.

Operator and companions change users by these requests: the operator to what a `User` says, the companion of a
slave to what its master has.

Source: AdminBrokerProcessor.java (3001 to 3010), AuthenticationMetadataManagerImpl.java,
AuthorizationMetadataManagerImpl.java 5.5.0.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from controller_core.access.users import (
    CUSTOM,
    AclInfo,
    AclRequestHeader,
    DeleteAclRequestHeader,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    UserRequestHeader,
)
from controller_core.remoting.codes import RequestCode
from controller_core.remoting.header import Header

Right = tuple[str, str, str]
"""Subject, policy type and resource of an entry."""


@dataclass(frozen=True, slots=True)
class UserTable:
    """All users of a broker by name, and the entries of their rights."""

    users: Mapping[str, UserInfo] = field(default_factory=dict)
    rights: Mapping[Right, PolicyEntryInfo] = field(default_factory=dict)

    @classmethod
    def of(cls, users: Iterable[UserInfo], rights: Iterable[AclInfo]) -> "UserTable":
        """Read the answers to 3005 and 3010."""
        return cls(
            {user.username: user for user in users if user.username},
            {
                (acl.subject, policy.policy_type or CUSTOM, entry.resource): _plain(entry)
                for acl in rights
                if acl.subject
                for policy in acl.policies or ()
                for entry in policy.entries or ()
            },
        )

    def without(self, username: str) -> "UserTable":
        """Return the table without a user."""
        return UserTable({name: user for name, user in self.users.items() if name != username}, self.rights)

    def minus(self, other: "UserTable") -> "UserTable":
        """Return what the other table lacks, whatever it has otherwise."""
        return UserTable(
            {name: user for name, user in self.users.items() if name not in other.users},
            {right: entry for right, entry in self.rights.items() if right not in other.rights},
        )


@dataclass(frozen=True, slots=True)
class UserRequest:
    """One request that changes a user or its rights; `what` says so without a password."""

    what: str
    code: RequestCode
    header: Header
    body: bytes = field(default=b"", repr=False)


def changes(own: UserTable, wanted: UserTable, gone: UserTable) -> tuple[UserRequest, ...]:
    """Return the requests that give a broker what is wanted, in order of sending.

    Args:
        own: users and rights of the broker.
        wanted: those that it should have.
        gone: those that may be deleted.
    """
    return (*_users(own, wanted), *_lost_rights(own, gone), *_rights(own, wanted), *_lost_users(own, gone))


def _users(own: UserTable, wanted: UserTable) -> Iterator[UserRequest]:
    for name, user in sorted(wanted.users.items()):
        if name not in own.users:
            yield UserRequest(
                f"create user {name}", RequestCode.AUTH_CREATE_USER, UserRequestHeader(name), user.encode()
            )
        elif own.users[name] != user:
            yield UserRequest(
                f"update user {name}", RequestCode.AUTH_UPDATE_USER, UserRequestHeader(name), user.encode()
            )


def _rights(own: UserTable, wanted: UserTable) -> Iterator[UserRequest]:
    for (subject, policy_type, resource), entry in sorted(wanted.rights.items()):
        if own.rights.get((subject, policy_type, resource)) != entry:
            body = AclInfo(subject, (PolicyInfo(policy_type, (entry,)),)).encode()
            yield UserRequest(
                f"set rights of {subject} on {resource}",
                RequestCode.AUTH_UPDATE_ACL,
                AclRequestHeader(subject),
                body,
            )


def _lost_rights(own: UserTable, gone: UserTable) -> Iterator[UserRequest]:
    for subject, policy_type, resource in sorted(own.rights.keys() & gone.rights.keys()):
        header = DeleteAclRequestHeader(subject, policy_type, resource)
        yield UserRequest(f"delete rights of {subject} on {resource}", RequestCode.AUTH_DELETE_ACL, header)


def _lost_users(own: UserTable, gone: UserTable) -> Iterator[UserRequest]:
    for name in sorted(own.users.keys() & gone.users.keys()):
        yield UserRequest(f"delete user {name}", RequestCode.AUTH_DELETE_USER, UserRequestHeader(name))


def _plain(entry: PolicyEntryInfo) -> PolicyEntryInfo:
    """Return an entry as it compares: actions in order of their names, and no empty list of addresses."""
    return PolicyEntryInfo(
        entry.resource,
        tuple(sorted(entry.actions)),
        tuple(sorted(entry.source_ips or ())) or None,
        entry.decision,
    )
