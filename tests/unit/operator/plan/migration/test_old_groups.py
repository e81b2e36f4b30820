"""Groups that a migration treats in their own way: DLedger of several members, brokers with users."""

from typing import Any

import pytest

from rocketmq_operator.plan.migration import checks as migration_checks
from rocketmq_operator.plan.migration.observed import OldBrokerKind
from rocketmq_operator.plugin.migration import MigrationOptions, MigrationRun
from rocketmq_operator.plugin.queries import RequestError
from testkit.worlds.migration import GROUP, MESSAGES, MigrationWorld
from testkit.worlds.old_sets import NAMESPACE

LOG = [f"m{number}" for number in range(MESSAGES)]
SIGNED: dict[str, Any] = {"authentication": {"type": "Signature"}}


@pytest.fixture(autouse=True)
def _no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration_checks, "STILL_S", 0.0)


async def _migrate(world: MigrationWorld) -> None:
    options = MigrationOptions(say=[].append, poll_s=0.0, timeout_s=0.3)
    assert not (await MigrationRun(world.kube, world.request(), options).run()).step


def _has_moved(world: MigrationWorld) -> None:
    assert world.kube.lost == []
    for number, pod in enumerate(world.pods):
        claim = world.kube.claim(f"data-{GROUP}-{number}")
        assert claim is not None
        assert claim["spec"]["volumeName"] == f"volume-of-{pod}"


@pytest.mark.parametrize("members", [1, 3])
async def test_any_member_of_dledger_may_lead_and_each_must_know_what_it_knows(members: int) -> None:
    world = MigrationWorld(members - 1, OldBrokerKind.DLEDGER)
    world.kube.leader = ""
    with pytest.raises(RequestError, match="none of the members leads"):
        await _migrate(world)
    world.kube.leader = world.pods[-1]
    if members > 1:
        world.old_store(world.pods[0]).topics -= 1
        with pytest.raises(RequestError, match=f"old-master-0 has 11 topics, {world.pods[-1]}, which leads"):
            await _migrate(world)
        assert world.old_store(world.pods[0]).log == LOG
        world.old_store(world.pods[0]).topics += 1
    await _migrate(world)
    _has_moved(world)


async def test_requests_to_signed_brokers_have_the_credentials_of_whom_they_ask() -> None:
    world = MigrationWorld()
    world.credentials = "old-admin"
    world.kube.objects["RocketMQCluster", NAMESPACE, "main"]["spec"] = {
        "authentication": {"type": "Signature"}
    }
    await _migrate(world)
    _has_moved(world)
    mounted = {task.split()[0]: secret for task, secret in world.kube.credentials.items()}
    assert mounted == {
        "survey": "main-broker-credentials",
        "permission": "old-admin",
        "verify": "",
        "adopt": "",
    }
    first = next(iter(world.kube.credentials.items()))
    assert first[1] == "old-admin"
    assert first[0].endswith("--credentials=/etc/rocketmq-credentials")


@pytest.mark.parametrize(("clients", "mode"), [("Permissive", "permissive"), ("Enforcing", "enforcing")])
async def test_requests_to_brokers_in_tls_have_the_authorities_of_whom_they_ask(
    clients: str, mode: str
) -> None:
    world = MigrationWorld()
    world.trust = "old-trust"
    world.kube.objects["RocketMQCluster", NAMESPACE, "main"]["spec"] = {"tls": {"clients": clients}}
    await _migrate(world)
    _has_moved(world)
    trusted = {task.split()[0]: name for task, name in world.kube.trusted.items()}
    assert trusted == {"survey": "main-trust", "permission": "old-trust", "verify": "", "adopt": ""}
    first, last = (
        task for task in (next(iter(world.kube.trusted)), list(world.kube.trusted)[-1]) if "survey" in task
    )
    assert first.endswith("--tls=/etc/rocketmq-tls --tls-mode=permissive")
    assert last.endswith(f"--tls=/etc/rocketmq-tls --tls-mode={mode}")


async def test_brokers_in_plain_tcp_are_asked_without_authorities() -> None:
    world = MigrationWorld()
    await _migrate(world)
    assert set(world.kube.trusted.values()) == {""}
    assert not any("--tls" in task for task in world.kube.tasks)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"storage": {"size": "20Gi", "ephemeral": True}}, "storage.ephemeral"),
        ({"hibernated": True}, "hibernated"),
    ],
)
async def test_a_group_that_would_leave_the_volumes_is_refused(fields: dict[str, Any], field: str) -> None:
    world = MigrationWorld()
    world.spec.update(fields)
    with pytest.raises(RequestError, match=f"spec.{field} of the BrokerGroup is true"):
        await _migrate(world)
    assert [task for task in world.kube.tasks if not task.startswith("survey")] == []
