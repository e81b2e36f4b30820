"""Users: made with password and rights in every broker of a group, kept as written, and never shown."""

import json
import logging

import pytest

from controller_core.access.signing import Credentials
from rocketmq_operator.api.names import BROKERS_FINALIZER
from rocketmq_operator.clients.api import Json, RequestRefusedError
from rocketmq_operator.handlers.kinds import RESYNC_S, USER_RESYNC_S
from testkit.memory.kubernetes import CrashError
from testkit.memory.membership import NAMESPACE
from testkit.worlds.metadata import (
    INNER,
    ORDERS,
    PAY,
    SLAVE,
    USER,
    WITH_USERS,
    MetadataWorld,
    made_user,
    users_world,
)

MADE = "alice-user"
KEY = "password"
ALL = (ORDERS, SLAVE, PAY)


def account(world: MetadataWorld, address: str, name: str = "alice") -> Json:
    """Return what a broker has of a user."""
    return world.config(address, name, "User")


def condition(world: MetadataWorld, type_: str) -> tuple[str, str]:
    """Return status and reason of a condition of alice."""
    return world.condition(type_, "User", "alice")


async def test_a_user_has_all_authorities_of_its_cluster_while_that_has_tls_for_clients() -> None:
    world = users_world()
    trust = {"kind": "ConfigMap", "metadata": {"name": "main-trust", "namespace": NAMESPACE}}
    world.kube.put({**trust, "data": {"ca.crt": "one"}})
    world.put("User", "alice", USER)
    await world.one_pass("User", "alice")
    assert "ca.crt" not in world.secret(MADE)
    cluster = world.kube.objects["RocketMQCluster", NAMESPACE, "main"]
    cluster["spec"] = {**cluster["spec"], "tls": {"clients": "Enforcing"}}
    for bundle in ("one", "one and two", "two"):
        world.kube.put({**trust, "data": {"ca.crt": bundle}})
        await world.one_pass("User", "alice")
        assert world.secret(MADE)["ca.crt"] == bundle
    assert world.secret(MADE)["username"] == "alice"


async def test_a_user_is_made_in_every_broker_that_may_become_master_with_a_secret_for_its_application() -> (
    None
):
    world = users_world()
    world.put("User", "alice", USER)
    assert await world.one_pass("User", "alice") == USER_RESYNC_S
    assert world.secret(MADE) == {
        "type": "rocketmq",
        "provider": "rocketmq-ha-operator",
        "host": f"main-nameserver.{NAMESPACE}.svc",
        "port": "9876",
        "namesrvAddr": world.secret(MADE)["namesrvAddr"],
        "username": "alice",
        "password": "token",
    }
    for address in ALL:
        assert account(world, address) == {
            "username": "alice",
            "password": "token",
            "userType": "Normal",
            "userStatus": "enable",
            "rights": {
                "Topic:prices": {"actions": ["Pub", "Sub"], "sourceIps": [], "decision": "Allow"},
            },
        }
    status = world.status("User", "alice")
    assert (status["name"], status["inSync"], status["binding"]) == ("alice", "2/2", {"name": MADE})
    assert condition(world, "Ready") == ("True", "Applied")
    assert condition(world, "RightsEnforced") == ("True", "Enforced")
    assert world.events() == []


async def test_the_master_gets_a_change_before_its_slaves() -> None:
    world = await made_user()
    written = [call.rpartition(" ")[2] for call in world.brokers.calls]
    assert written.index(ORDERS) < written.index(SLAVE)


async def test_a_pass_that_finds_all_as_it_should_be_writes_nothing() -> None:
    world = await made_user()
    calls, writes = len(world.brokers.calls), len(world.kube.writes)
    assert await world.one_pass("User", "alice") == USER_RESYNC_S
    assert (len(world.brokers.calls), len(world.kube.writes)) == (calls, writes)


async def test_a_secret_that_somebody_deletes_is_made_again_and_brokers_take_its_password() -> None:
    world = await made_user()
    account(world, ORDERS)[KEY] = "former"
    world.kube.remove("Secret", NAMESPACE, MADE)
    await world.one_pass("User", "alice")
    assert {account(world, address)[KEY] for address in ALL} == {world.secret(MADE)[KEY]}
    assert condition(world, "Ready") == ("True", "Applied")


@pytest.mark.parametrize("crash_after", range(1, 5))
async def test_a_crash_after_any_write_leaves_one_password(crash_after: int) -> None:
    world = users_world()
    world.put("User", "alice", USER)
    world.kube.crash_after = len(world.kube.writes) + crash_after
    try:
        await world.one_pass("User", "alice")
    except CrashError:
        world.kube.crash_after = None
        await world.one_pass("User", "alice")
    assert {account(world, address)["password"] for address in ALL} == {world.secret(MADE)["password"]}


async def test_brokers_get_no_password_while_its_secret_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = users_world()
    apply = world.kube.apply

    async def refuse(body: Json) -> Json:
        if body["kind"] == "Secret":
            raise RequestRefusedError("Secret: 403 Forbidden")
        return await apply(body)

    monkeypatch.setattr(world.kube, "apply", refuse)
    world.put("User", "alice", USER)
    assert await world.one_pass("User", "alice") == RESYNC_S
    assert not any(world.knows(address, "alice", "User") for address in ALL)
    assert condition(world, "Ready") == ("False", "StepRefused")
    assert "binding" not in world.status("User", "alice")


async def test_a_password_of_somebodys_own_is_taken_and_followed() -> None:
    world = users_world()
    world.put_secret("keys", alice="first\n")
    world.put("User", "alice", USER | {"passwordSecret": {"name": "keys", "key": "alice"}})
    await world.one_pass("User", "alice")
    assert {account(world, address)["password"] for address in ALL} == {"first"}
    assert ("Secret", NAMESPACE, MADE) not in world.kube.objects
    assert "binding" not in world.status("User", "alice")
    world.put_secret("keys", alice="second")
    await world.one_pass("User", "alice")
    assert {account(world, address)["password"] for address in ALL} == {"second"}
    assert condition(world, "Ready") == ("True", "Applied")


@pytest.mark.parametrize(
    ("values", "reason", "words"),
    [
        (None, "SecretMissing", "Secret keys does not exist"),
        ({"other": "x"}, "PasswordInvalid", "Secret keys lacks the key password"),
        ({"password": "two\nlines"}, "PasswordInvalid", "it has 9"),
        ({"password": " "}, "PasswordInvalid", "it has 1"),
        ({"password": "x" * 257}, "PasswordInvalid", "it has 257"),
    ],
)
async def test_a_secret_without_a_password_is_told_and_the_user_is_left_as_it_is(
    values: dict[str, str] | None, reason: str, words: str
) -> None:
    world = users_world()
    if values is not None:
        world.put_secret("keys", **values)
    world.put("User", "alice", USER | {"passwordSecret": {"name": "keys"}})
    await world.one_pass("User", "alice")
    assert condition(world, "Ready") == ("False", reason)
    text = json.dumps(world.status("User", "alice"))
    assert words in text
    assert all(value not in text for value in (values or {}).values() if len(value) > 1)
    assert not world.knows(ORDERS, "alice", "User")
    assert [one[0] for one in world.events()] == [reason]


async def test_a_secret_that_the_operator_may_not_read_names_the_value_of_the_chart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = users_world()
    get = world.kube.get

    async def refuse(kind: str, namespace: str, name: str) -> Json | None:
        if (kind, name) == ("Secret", MADE):
            raise RequestRefusedError("Secret: 403 Forbidden")
        return await get(kind, namespace, name)

    monkeypatch.setattr(world.kube, "get", refuse)
    world.put("User", "alice", USER)
    await world.one_pass("User", "alice")
    assert condition(world, "Ready") == ("False", "SecretNotAllowed")
    assert "list it in the chart's operator.userSecrets" in json.dumps(world.status("User", "alice"))


async def test_somebody_elses_secret_is_not_taken_over() -> None:
    world = users_world()
    world.put_secret(MADE, **{KEY: "theirs"})
    world.put("User", "alice", USER)
    await world.one_pass("User", "alice")
    assert condition(world, "Ready") == ("False", "NameTaken")
    assert world.secret(MADE) == {"password": "theirs"}
    assert not world.knows(ORDERS, "alice", "User")


async def test_without_users_in_the_cluster_nothing_is_asked_and_the_reason_is_told() -> None:
    world = MetadataWorld()
    world.put("User", "alice", USER)
    await world.one_pass("User", "alice")
    assert condition(world, "Ready") == ("False", "AuthenticationOff")
    assert condition(world, "RightsEnforced") == ("False", "AuthorizationOff")
    assert world.brokers.tables == {}
    assert ("Secret", NAMESPACE, MADE) not in world.kube.objects
    world.delete("User", "alice")
    await world.one_pass("User", "alice")
    assert not world.has("User", "alice"), "a deletion does not wait for users"


async def test_without_its_cluster_nothing_is_said_of_rights() -> None:
    world = users_world()
    world.put("User", "alice", USER | {"cluster": "gone"})
    await world.one_pass("User", "alice")
    assert condition(world, "Ready") == ("False", "NoCluster")
    assert condition(world, "RightsEnforced") == ("Unknown", "NotCompared")


async def test_rights_are_written_where_brokers_do_not_look_at_them_and_that_is_told() -> None:
    world = users_world()
    world.put("RocketMQCluster", "main", {"authentication": WITH_USERS["authentication"]})
    world.put("User", "alice", USER)
    await world.one_pass("User", "alice")
    assert account(world, ORDERS)["rights"].keys() == {"Topic:prices"}
    assert condition(world, "Ready") == ("True", "Applied")
    assert condition(world, "RightsEnforced") == ("False", "AuthorizationOff")


async def test_drift_is_corrected_and_told_without_a_password() -> None:
    world = await made_user()
    rights = {"Topic:prices": {"actions": ["Pub"], "sourceIps": ["10.0.0.1"], "decision": "Allow"}}
    account(world, PAY).update({KEY: "guessed", "rights": rights})
    account(world, SLAVE).update(
        userStatus="disable",
        rights={
            **account(world, SLAVE)["rights"],
            "*": {"actions": ["All"], "sourceIps": [], "decision": "Allow"},
        },
    )
    world.advance(1)
    await world.one_pass("User", "alice")
    assert account(world, PAY) == account(world, ORDERS) == account(world, SLAVE)
    assert world.events() == [
        (
            "DriftCorrected",
            "orders: enabled false -> true; rights.* Allow All -> absent. pay: password another one -> "
            "that of its Secret; rights.Topic:prices Allow Pub from 10.0.0.1 -> Allow Pub,Sub",
        )
    ]
    assert "guessed" not in json.dumps(world.status("User", "alice"))


async def test_drift_of_a_slave_is_shown_where_it_is_only_reported() -> None:
    world = await made_user(driftPolicy="Report")
    account(world, SLAVE).update(userType="Super")
    await world.one_pass("User", "alice")
    row = world.status("User", "alice")["groups"][0]
    assert (row["group"], row["state"]) == ("orders", "Drifted")
    assert row["differences"] == [{"field": "type", "wanted": "Normal", "found": "Super"}]


async def test_a_silent_slave_does_not_hinder_and_gets_the_user_when_it_is_back() -> None:
    world = users_world()
    world.brokers.silent = {SLAVE}
    world.put("User", "alice", USER)
    await world.one_pass("User", "alice")
    assert condition(world, "Ready") == ("True", "Applied")
    world.brokers.silent = set()
    await world.one_pass("User", "alice")
    assert account(world, SLAVE) == account(world, ORDERS)


async def test_a_disabled_user_and_a_super_user() -> None:
    world = await made_user(enabled=False)
    assert account(world, ORDERS)["userStatus"] == "disable"
    world.put("User", "alice", {"cluster": "main", "type": "Super"})
    await world.one_pass("User", "alice")
    assert (account(world, ORDERS)["userType"], account(world, ORDERS)["rights"]) == ("Super", {})
    assert condition(world, "RightsEnforced") == ("True", "SuperUser")


async def test_deletion_forgets_the_user_everywhere_by_default_and_its_secret_goes_with_it() -> None:
    world = await made_user()
    held = world.kube.objects["User", NAMESPACE, "alice"]["metadata"]["finalizers"]
    assert held == [BROKERS_FINALIZER]
    world.delete("User", "alice")
    await world.one_pass("User", "alice")
    assert not world.has("User", "alice")
    assert not any(world.knows(address, "alice", "User") for address in ALL)
    assert ("Secret", NAMESPACE, MADE) not in world.kube.objects


async def test_with_retain_brokers_keep_the_user_and_its_secret_stays_for_the_next_object() -> None:
    world = await made_user(deletionPolicy="Retain")
    world.delete("User", "alice")
    assert not world.has("User", "alice")
    assert world.knows(SLAVE, "alice", "User")
    assert world.secret(MADE)[KEY] == "token"
    world.put("User", "alice", USER)
    calls = len(world.brokers.calls)
    await world.one_pass("User", "alice")
    assert len(world.brokers.calls) == calls, "the former password is still the right one"
    owners = world.kube.objects["Secret", NAMESPACE, MADE]["metadata"]["ownerReferences"]
    assert [one["name"] for one in owners] == ["alice"]


async def test_a_secret_that_should_outlive_its_user_loses_its_owner() -> None:
    world = await made_user()
    world.put("User", "alice", USER | {"deletionPolicy": "Retain"})
    await world.one_pass("User", "alice")
    metadata = world.kube.objects["Secret", NAMESPACE, MADE]["metadata"]
    assert not metadata.get("ownerReferences")
    world.delete("User", "alice")
    assert world.secret(MADE)[KEY]


async def test_the_operators_own_user_cannot_be_claimed() -> None:
    world = users_world()
    world.put("User", "rocketmq-ha", USER)
    await world.one_pass("User", "rocketmq-ha")
    assert world.condition("Ready", "User", "rocketmq-ha") == ("False", "SystemName")
    assert not world.knows(ORDERS, "rocketmq-ha", "User")


async def test_no_log_line_and_no_text_of_a_step_has_a_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world = users_world()
    world.put_secret("keys", **{KEY: "open-sesame"})
    world.put("User", "alice", USER | {"passwordSecret": {"name": "keys"}})
    await world.one_pass("User", "alice")
    assert "write User alice" in caplog.text
    assert "open-sesame" not in caplog.text + repr(world.status("User", "alice")) + repr(world.events())


def signing_world() -> MetadataWorld:
    """Return a world in which operator and members sign as inner-2, which is a User too."""
    world = users_world()
    world.brokers.credentials = Credentials("inner-2", "second")
    world.put_secret("main-broker-credentials", **{"username": "inner-2", KEY: "second"})
    world.put_secret("keys", **{KEY: "second"})
    return world


SIGNER: Json = {"cluster": "main", "type": "Super", "passwordSecret": {"name": "keys"}}


@pytest.mark.parametrize(
    ("change", "password"), [({}, "third"), ({"enabled": False}, "second"), ({"type": "Normal"}, "second")]
)
async def test_the_user_that_signs_for_all_cannot_be_changed_so_that_it_is_refused(
    change: Json, password: str
) -> None:
    world = signing_world()
    world.put("User", "inner-2", SIGNER)
    await world.one_pass("User", "inner-2")
    assert world.condition("Ready", "User", "inner-2") == ("True", "Applied")
    before = {address: account(world, address, "inner-2") for address in ALL}
    world.put_secret("keys", **{KEY: password})
    world.put("User", "inner-2", SIGNER | change)
    await world.one_pass("User", "inner-2")
    assert world.condition("Ready", "User", "inner-2") == ("False", "SignsForMembers")
    assert {address: account(world, address, "inner-2") for address in ALL} == before


async def test_the_user_that_signs_for_all_is_not_deleted_from_brokers() -> None:
    world = signing_world()
    world.put("User", "inner-2", SIGNER)
    await world.one_pass("User", "inner-2")
    world.delete("User", "inner-2")
    world.advance(60)
    await world.one_pass("User", "inner-2")
    assert world.has("User", "inner-2")
    assert world.knows(ORDERS, "inner-2", "User")
    world.put_secret("main-broker-credentials", **{"username": INNER.username, KEY: INNER.password})
    world.brokers.credentials = INNER
    await world.one_pass("User", "inner-2")
    assert not world.has("User", "inner-2")
    assert not world.knows(ORDERS, "inner-2", "User")
