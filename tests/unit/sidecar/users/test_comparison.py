"""Which requests bring a slave's users to its master's."""

from collections.abc import Mapping

from controller_core.access.user_table import UserRequest, UserTable, changes
from controller_core.access.users import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from controller_core.remoting.codes import RequestCode
from ha_sidecar.users.comparison import UserComparison

ALICE = UserInfo("alice", "secret-1", "Normal", "enable")
BOB = UserInfo("bob", "secret-2", "Normal", "enable")
SEND = PolicyEntryInfo("Topic:orders", ("Pub",), None, "Allow")
READ = PolicyEntryInfo("Group:readers", ("Sub",), ("10.0.0.1", "10.0.0.2"), "Allow")
NOTHING = UserTable()
FIRST = ("10.0.0.1:10911", 1)
SECOND = ("10.0.0.2:10911", 2)


def _table(*users: UserInfo, rights: Mapping[str, tuple[PolicyEntryInfo, ...]] | None = None) -> UserTable:
    acls = [
        AclInfo(f"User:{name}", (PolicyInfo("Custom", entries),)) for name, entries in (rights or {}).items()
    ]
    return UserTable.of(users, acls)


def _said(requests: tuple[UserRequest, ...]) -> list[str]:
    return [request.what for request in requests]


def _applied(own: UserTable, requests: tuple[UserRequest, ...]) -> UserTable:
    """Return the table after the requests, as a broker carries them out."""
    users, rights = dict(own.users), dict(own.rights)
    for request in requests:
        ext = request.header.to_ext()
        match request.code:
            case RequestCode.AUTH_CREATE_USER | RequestCode.AUTH_UPDATE_USER:
                users[ext["username"]] = UserInfo.decode(request.body)
            case RequestCode.AUTH_DELETE_USER:
                users.pop(ext["username"])
                rights = {key: entry for key, entry in rights.items() if key[0] != f"User:{ext['username']}"}
            case RequestCode.AUTH_UPDATE_ACL:
                rights |= UserTable.of([], [AclInfo.decode(request.body)]).rights
            case RequestCode.AUTH_DELETE_ACL:
                rights.pop((ext["subject"], ext["policyType"], ext["resource"]))
            case _:
                raise AssertionError(request)
    return UserTable(users, rights)


def test_a_broker_without_users_gets_all_of_its_master_and_then_nothing_more() -> None:
    master = _table(ALICE, BOB, rights={"alice": (SEND, READ)})
    requests = changes(NOTHING, master, NOTHING)
    assert _said(requests) == [
        "create user alice",
        "create user bob",
        "set rights of User:alice on Group:readers",
        "set rights of User:alice on Topic:orders",
    ]
    own = _applied(NOTHING, requests)
    assert own == master
    assert changes(own, master, NOTHING) == ()


def test_what_differs_is_overwritten_and_the_order_of_lists_is_no_difference() -> None:
    own = _table(ALICE, rights={"alice": (PolicyEntryInfo("Topic:orders", ("Sub",), (), "Allow"), READ)})
    turned = PolicyEntryInfo("Group:readers", ("Sub",), ("10.0.0.2", "10.0.0.1"), "Allow")
    changed = UserInfo("alice", "secret-3", "Normal", "disable")
    master = _table(changed, rights={"alice": (SEND, turned)})
    requests = changes(own, master, NOTHING)
    assert _said(requests) == ["update user alice", "set rights of User:alice on Topic:orders"]
    assert _applied(own, requests) == master


def test_what_a_master_lost_while_it_was_watched_is_deleted_at_its_slave() -> None:
    comparison, whole = UserComparison(), _table(ALICE, BOB, rights={"alice": (SEND, READ), "bob": (SEND,)})
    assert comparison.changes(FIRST, whole, whole) == ()
    fewer = _table(ALICE, rights={"alice": (READ,)})
    requests = comparison.changes(FIRST, whole, fewer)
    assert _said(requests) == [
        "delete rights of User:alice on Topic:orders",
        "delete rights of User:bob on Topic:orders",
        "delete user bob",
    ]
    assert comparison.changes(FIRST, whole, fewer) == requests  # they failed, and are sent again
    assert comparison.changes(FIRST, _applied(whole, requests), fewer) == ()


def test_a_new_master_without_users_takes_none_from_its_slaves() -> None:
    comparison, whole = UserComparison(), _table(ALICE, rights={"alice": (SEND,)})
    assert comparison.changes(FIRST, whole, whole) == ()
    assert comparison.changes(SECOND, whole, NOTHING) == ()
    assert comparison.changes(SECOND, whole, NOTHING) == ()
    comparison.forget()
    assert comparison.changes(FIRST, whole, NOTHING) == ()


def test_a_user_that_is_made_again_is_not_deleted() -> None:
    comparison, whole = UserComparison(), _table(ALICE)
    comparison.changes(FIRST, NOTHING, whole)
    assert _said(comparison.changes(FIRST, whole, NOTHING)) == ["delete user alice"]
    again = _table(UserInfo("alice", "secret-9", "Normal", "enable"))
    assert _said(comparison.changes(FIRST, whole, again)) == ["update user alice"]


def test_the_user_that_signs_is_left_out_and_no_text_has_a_password() -> None:
    master = _table(ALICE, BOB).without("bob")
    requests = changes(NOTHING, master, NOTHING)
    assert _said(requests) == ["create user alice"]
    assert "secret-1" not in f"{requests} {master}"


def test_answers_without_names_or_rights_are_read() -> None:
    assert (
        UserTable.of([UserInfo()], [AclInfo(), AclInfo("User:a", (PolicyInfo(),)), AclInfo("User:b")])
        == NOTHING
    )
