"""Users of brokers and their rights (ACL 2.0): headers and bodies of requests 3001 to 3010.

| code | request | header | body |
|---|---|---|---|
| 3001, 3002 | create, update a user | `UserRequestHeader` | `UserInfo` |
| 3003 | delete a user, and its rights | `UserRequestHeader` | |
| 3004 | one user | `UserRequestHeader` | of the answer: `UserInfo` |
| 3005 | all users | `ListUsersRequestHeader` | of the answer: a list of `UserInfo` |
| 3006, 3007 | create, update rights | `AclRequestHeader` | `AclInfo` |
| 3008 | delete the rights on a resource, or all | `DeleteAclRequestHeader` | |
| 3009 | rights of one user | `AclRequestHeader` | of the answer: `AclInfo` |
| 3010 | rights of all users | `ListAclsRequestHeader` | of the answer: a list of `AclInfo` |

An update of a user keeps values that are absent in the body. 3006 and 3007 do the same: they add entries, and
replace those of an equal resource. Answers to 3004 and 3005 contain passwords in plain text. An empty answer
means an empty result. Code 16 is also the answer for a user that does not exist, or exists already.

Source: rocketmq-remoting 5.5.0 CreateUserRequestHeader to ListAclsRequestHeader, UserInfo, AclInfo;
AdminBrokerProcessor, UserConverter, AclConverter of rocketmq-broker 5.5.0; Acl.updatePolicy and
Policy.updateEntry of rocketmq-auth 5.5.0.
"""

from typing import Final, TypeVar

from controller_core.remoting import lenient_json
from controller_core.remoting.bodies import Body
from controller_core.remoting.errors import BodyError, RemotingProtocolError
from controller_core.remoting.header import Header

SUPER: Final = "Super"
"""Type of a user that needs no rights: it may do everything."""
NORMAL: Final = "Normal"
ENABLED: Final = "enable"
DISABLED: Final = "disable"
CUSTOM: Final = "Custom"
"""Policy type of the rights that people write. The other one, `Default`, applies if none of these does."""
_SUBJECT_PREFIX: Final = "User:"

T = TypeVar("T", bound=Body)


def subject(username: str) -> str:
    """Return how rights name a user."""
    return f"{_SUBJECT_PREFIX}{username}"


class UserRequestHeader(Header, frozen=True):
    """3001 AUTH_CREATE_USER, 3002 AUTH_UPDATE_USER, 3003 AUTH_DELETE_USER and 3004 AUTH_GET_USER."""

    username: str


class ListUsersRequestHeader(Header, frozen=True):
    """3005 AUTH_LIST_USER; the filter is a part of the name."""

    filter: str | None = None


class AclRequestHeader(Header, frozen=True):
    """3006 AUTH_CREATE_ACL, 3007 AUTH_UPDATE_ACL and 3009 AUTH_GET_ACL; the subject is `User:<name>`."""

    subject: str


class DeleteAclRequestHeader(Header, frozen=True):
    """3008 AUTH_DELETE_ACL; without a resource all rights of the subject."""

    subject: str
    policy_type: str | None = None
    resource: str | None = None


class ListAclsRequestHeader(Header, frozen=True):
    """3010 AUTH_LIST_ACL; filters are parts of the names."""

    subject_filter: str | None = None
    resource_filter: str | None = None


class UserInfo(Body, frozen=True):
    """One user; `user_type` is Super or Normal, `user_status` enable or disable."""

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None

    def __repr__(self) -> str:
        """Return all but the password."""
        return f"UserInfo({self.username!r}, {self.user_type!r}, {self.user_status!r})"


class PolicyEntryInfo(Body, frozen=True):
    """The rights on one resource.

    Attributes:
        resource: `Topic:orders`, `Group:readers*`, `Cluster:*` or `*`.
        actions: of Pub, Sub, Create, Update, Delete, Get, List and All.
        source_ips: addresses or networks of clients; empty for any.
        decision: Allow or Deny.
    """

    resource: str
    actions: tuple[str, ...] = ()
    source_ips: tuple[str, ...] | None = None
    decision: str | None = None


class PolicyInfo(Body, frozen=True):
    """Rights of one policy type."""

    policy_type: str | None = None
    entries: tuple[PolicyEntryInfo, ...] | None = None


class AclInfo(Body, frozen=True):
    """All rights of one user; the subject is `User:<name>`."""

    subject: str | None = None
    policies: tuple[PolicyInfo, ...] | None = None


def decode_list(body: bytes, kind: type[T]) -> tuple[T, ...]:
    """Read the answer to 3005 or 3010; without a body it is empty.

    Raises:
        BodyError: it is not a list of that kind.
    """
    if not body or body == b"null":
        return ()
    try:
        return lenient_json.decode(body, tuple[kind, ...])  # type: ignore[valid-type]
    except RemotingProtocolError as error:
        # Not its text, which may quote a password.
        raise BodyError(kind.__name__, "is not a list of them") from error
