"""Which requests give a slave the users and rights of its master?

A slave copies topics, groups and offsets from its master, but not the users: each broker keeps its own in
RocksDB. A replaced member lacks them, and refuses all clients when it becomes master. The answers of a
master to 3005 and 3010 have all that another broker needs, passwords included.

The slave gets all users and rights of its master, and differing ones are overwritten. A deletion is not so
simple: a master that lacks a user may be the one that lost it. So the slave keeps a user, or a right, until
this process saw it vanish from the same master (`UserComparison`).

The broker's own user, which signs these requests, is left alone: its Secret decides about it.

Source: AdminBrokerProcessor.java (3001 to 3010), AuthenticationMetadataManagerImpl.java,
AuthorizationMetadataManagerImpl.java 5.5.0.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

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


@dataclass(frozen=True, slots=True)
class UserRequest:
    """One request that changes a user or its rights; `what` says so without a password."""

    what: str
    code: RequestCode
    header: Header
    body: bytes = field(default=b"", repr=False)


def changes(own: UserTable, master: UserTable, gone: UserTable) -> tuple[UserRequest, ...]:
    """Return the requests that bring a slave's table to its master's, in order of sending.

    Args:
        own: users and rights of the slave.
        master: those of its master.
        gone: those that the master had and lacks now, which may be deleted.
    """
    return (*_users(own, master), *_lost_rights(own, gone), *_rights(own, master), *_lost_users(own, gone))


def _users(own: UserTable, master: UserTable) -> Iterator[UserRequest]:
    for name, user in sorted(master.users.items()):
        if name not in own.users:
            yield UserRequest(
                f"create user {name}", RequestCode.AUTH_CREATE_USER, UserRequestHeader(name), user.encode()
            )
        elif own.users[name] != user:
            yield UserRequest(
                f"update user {name}", RequestCode.AUTH_UPDATE_USER, UserRequestHeader(name), user.encode()
            )


def _rights(own: UserTable, master: UserTable) -> Iterator[UserRequest]:
    for (subject, policy_type, resource), entry in sorted(master.rights.items()):
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


_EMPTY: Final = UserTable()


class UserComparison:
    """Remembers the users and rights of one master, to distinguish deletions from losses."""

    def __init__(self) -> None:
        """Know no master yet."""
        self._master: tuple[str, int] | None = None
        self._seen = _EMPTY
        self._gone = _EMPTY

    def forget(self) -> None:
        """Learn that the broker follows no master, or that this process no longer knows which."""
        self._master, self._seen, self._gone = None, _EMPTY, _EMPTY

    def changes(
        self, master_key: tuple[str, int], own: UserTable, master: UserTable
    ) -> tuple[UserRequest, ...]:
        """Return the requests for the slave now; `master_key` is the master's address and its epoch."""
        if master_key != self._master:
            self.forget()
            self._master = master_key
        vanished = _minus(self._seen, master)
        self._gone = _minus(_joined(self._gone, vanished), master)
        self._seen = master
        return changes(own, master, self._gone)


def _minus(table: UserTable, other: UserTable) -> UserTable:
    return UserTable(
        {name: user for name, user in table.users.items() if name not in other.users},
        {right: entry for right, entry in table.rights.items() if right not in other.rights},
    )


def _joined(table: UserTable, other: UserTable) -> UserTable:
    return UserTable({**table.users, **other.users}, {**table.rights, **other.rights})
