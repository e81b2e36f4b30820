"""The super user is replaced by another one: no step refuses a signature that somebody still makes.

A small cluster in memory carries out one step after each look. The plan remembers nothing, so each step is
also the last one before a crash of the operator.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller_core.access.signing import Credentials
from rocketmq_operator.api.cluster import Authentication
from rocketmq_operator.plan.common.actions import (
    DeleteMetadata,
    RotateCredentials,
    Step,
    Wait,
    WriteMetadata,
)
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.credentials.inner_users import (
    InnerUsers,
    credentials_secret,
    inner_users,
    marked,
    next_username,
    signer_mark,
)
from rocketmq_operator.plan.credentials.rotation import (
    BrokerUsers,
    ObservedRotation,
    RotationPlan,
    account_of,
    rotation_plan,
)

Json = dict[str, Any]
OWNER = Owner("rocketmq-ha.dev/v1alpha1", "RocketMQCluster", "main", "shop", "uid-1")
FIRST = Credentials("rocketmq-ha", "first")
START = datetime(2026, 1, 1, tzinfo=UTC)
LOOKS_MAX = 40


def _is_current(plan: RotationPlan) -> bool:
    return plan.state.reason == "Current"


@dataclass
class _Cluster:
    """Two brokers, their StatefulSet, a companion that follows the files late, and the Secret."""

    secret: Json = field(default_factory=lambda: credentials_secret(OWNER, InnerUsers(FIRST)))
    request: str = "rocketmq-ha"
    spec: Authentication = field(default_factory=Authentication)
    shares: bool = False
    problem: str = ""
    now: datetime = START
    follower: str = FIRST.username
    mark: str = ""
    known: dict[str, dict[str, Json]] = field(
        default_factory=lambda: {one: {FIRST.username: account_of(FIRST)} for one in ("a", "b")}
    )
    signs: dict[str, str] = field(default_factory=lambda: dict.fromkeys(("a", "b"), FIRST.username))
    done: list[Step] = field(default_factory=list)

    @property
    def users(self) -> InnerUsers:
        found = inner_users(self.secret)
        assert found is not None
        return found

    def look(self) -> RotationPlan:
        users = self.users
        brokers = tuple(
            BrokerUsers(
                "orders",
                one,
                self.signs[one],
                None if users.next is None else table.get(users.next.username),
                users.former in table,
            )
            for one, table in self.known.items()
        )
        live = {
            "metadata": {"name": "orders", "generation": 1},
            "spec": {"replicas": 2, "template": {"metadata": {}}},
            "status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2},
        }
        observed = ObservedRotation(users, START, self.request, "second", brokers, self.problem)
        sets = [marked(live, self.mark)]
        return rotation_plan(OWNER, self.spec, observed, sets, self.now, shares=self.shares)

    def carry_out(self, step: Step) -> None:
        self.done.append(step)
        match step:
            case RotateCredentials(body=body):
                self.secret = body
            case WriteMetadata(address=address, config=config):
                self.known[address][config["username"]] = config
            case DeleteMetadata(address=address, name=name):
                del self.known[address][name]
            case _:
                raise AssertionError(step)

    def check(self) -> None:
        """Whoever signs now is known to each broker."""
        for name in (self.users.current.username, self.follower, *self.signs.values()):
            for address, table in self.known.items():
                assert name in table, f"{name} is refused at {address} after {self.done[-1:]}"

    def advance(self) -> None:
        """Let a minute pass: one pod at a time is new, and the files arrive after two minutes."""
        self.now += timedelta(minutes=1)
        users = self.users
        if users.since is not None and self.now - users.since >= timedelta(minutes=2):
            self.follower = users.current.username
        late = [one for one, name in self.signs.items() if name != users.current.username]
        if late:
            self.signs[late[0]] = users.current.username
        elif users.former:
            self.mark = signer_mark(users.current)

    def run(
        self, until: Callable[[RotationPlan], bool] = lambda plan: plan.state.reason == "Current"
    ) -> Wait:
        for _ in range(LOOKS_MAX):
            plan = self.look()
            if until(plan):
                return plan.state
            if plan.plan.steps:
                self.carry_out(plan.plan.steps[0])
            else:
                self.advance()
            self.check()
        raise AssertionError(self.look().state)


def test_another_user_replaces_the_first_and_nobody_is_refused() -> None:
    cluster = _Cluster()
    state = cluster.run()
    assert state.message == "all sign as rocketmq-ha-2 since 2026-01-01 00:00"
    assert cluster.users == InnerUsers(Credentials("rocketmq-ha-2", "second"), since=START)
    assert {name for table in cluster.known.values() for name in table} == {"rocketmq-ha-2"}
    assert [str(step) for step in cluster.done] == [
        "write Secret main-broker-credentials (rocketmq-ha-2 will replace rocketmq-ha: asked for)",
        "write User rocketmq-ha-2 in orders (the next super user)",
        "write User rocketmq-ha-2 in orders (the next super user)",
        "write Secret main-broker-credentials "
        "(all 2 brokers know rocketmq-ha-2: it signs, and not rocketmq-ha)",
        "delete User rocketmq-ha in orders",
        "delete User rocketmq-ha in orders",
        "write Secret main-broker-credentials (rocketmq-ha-2 has replaced rocketmq-ha)",
    ]
    assert cluster.now - START >= timedelta(minutes=10), "followers of the files had time"
    assert "second" not in "".join(map(repr, cluster.done))


def test_a_request_is_carried_out_once() -> None:
    cluster = _Cluster()
    cluster.run()
    done = len(cluster.done)
    assert cluster.look().plan.steps == ()
    cluster.request = "rocketmq-ha-2"
    cluster.run()
    assert (cluster.users.current.username, len(cluster.done)) == ("rocketmq-ha-3", 2 * done)


def test_a_user_is_replaced_when_it_is_old() -> None:
    cluster = _Cluster(request="", spec=Authentication.model_validate({"rotateAfterDays": 90}))
    cluster.now += timedelta(days=90, seconds=-1)
    assert cluster.look().state.reason == "Current"
    cluster.now += timedelta(seconds=1)
    cluster.run()
    assert cluster.users.current.username == "rocketmq-ha-2"
    assert cluster.users.since is not None
    assert cluster.users.since >= START + timedelta(days=90)


@pytest.mark.parametrize("steps", range(1, 7))
def test_a_silent_broker_stops_each_step_but_the_first(steps: int) -> None:
    cluster = _Cluster()
    cluster.run(lambda _: len(cluster.done) >= steps)
    assert cluster.users.rotates
    cluster.problem = "orders-1 does not answer"
    assert cluster.look().plan.steps == ()
    assert cluster.look().state.reason == "Rotating"
    assert "orders-1 does not answer" in cluster.look().state.message
    cluster.problem = ""
    cluster.run()
    assert cluster.users.current.username == "rocketmq-ha-2"


def test_the_former_user_stays_while_a_broker_signs_with_it_or_a_pod_is_old() -> None:
    cluster = _Cluster()
    cluster.run(lambda _: bool(cluster.users.former))
    cluster.now += timedelta(days=1)
    assert "pods of orders have not been replaced yet" in cluster.look().state.message
    cluster.mark = "rocketmq-ha-2"
    assert "a, b do not sign as rocketmq-ha-2 yet" in cluster.look().state.message
    cluster.signs = {"a": "rocketmq-ha-2", "b": "rocketmq-ha"}
    assert cluster.look().plan.steps == ()
    assert "b do not sign" in cluster.look().state.message


def test_a_broker_with_another_password_of_the_next_user_gets_the_right_one() -> None:
    cluster = _Cluster()
    stale = account_of(Credentials("rocketmq-ha-2", "stale"))
    cluster.known["a"]["rocketmq-ha-2"] = stale
    cluster.run()
    assert cluster.known["a"]["rocketmq-ha-2"] == account_of(cluster.users.current)


def test_clusters_that_share_controllers_are_left_to_a_person() -> None:
    cluster = _Cluster(shares=True)
    assert (cluster.look().plan.steps, cluster.look().state.reason) == ((), "SharedControllers")
    cluster = _Cluster()
    cluster.run(lambda _: bool(cluster.done))
    cluster.shares = True
    assert (cluster.look().plan.steps, cluster.look().state.reason) == ((), "SharedControllers")


def test_a_user_of_a_person_is_replaced_and_stays_in_the_brokers() -> None:
    own = Credentials("inner-2", "own")
    known = {one: {own.username: account_of(own)} for one in ("a", "b")}
    cluster = _Cluster(
        secret=credentials_secret(OWNER, InnerUsers(own)),
        request="inner-2",
        follower="inner-2",
        known=known,
        signs=dict.fromkeys(known, "inner-2"),
    )
    cluster.run()
    assert cluster.users.current.username == "rocketmq-ha-2"
    assert set(cluster.known["a"]) == {"inner-2", "rocketmq-ha-2"}


def test_only_users_that_the_operator_made_later_mark_pods() -> None:
    assert [signer_mark(Credentials(name, "x")) for name in ("rocketmq-ha", "inner-2", "rocketmq-ha-7")] == [
        "",
        "",
        "rocketmq-ha-7",
    ]
    assert signer_mark(None) == ""
    assert [next_username(name) for name in ("rocketmq-ha", "rocketmq-ha-9", "inner-2")] == [
        "rocketmq-ha-2",
        "rocketmq-ha-10",
        "rocketmq-ha-2",
    ]


def test_the_secret_keeps_what_it_was_made_of() -> None:
    users = InnerUsers(FIRST, Credentials("rocketmq-ha-2", "second"), "rocketmq-ha-0", START)
    assert inner_users(credentials_secret(OWNER, users)) == users
    assert inner_users(credentials_secret(OWNER, replace(users, current=Credentials("", "")))) is None
    assert "second" not in repr(users)
