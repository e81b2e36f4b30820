"""A migration in memory: its acts and refusals, a kill at any point, and its undoing."""

from collections.abc import Callable
from typing import Any

import pytest

from rocketmq_operator.plan.migration import checks as migration_checks
from rocketmq_operator.plan.migration.observed import OldBrokerKind
from rocketmq_operator.plan.migration.step_types import MigrationPlan
from rocketmq_operator.plugin.migration import MigrationOptions, MigrationRun
from rocketmq_operator.plugin.queries import RequestError
from testkit.memory.kubernetes import CrashError
from testkit.worlds.migration import GROUP, MESSAGES, MigrationWorld
from testkit.worlds.old_sets import NAMESPACE, stateful_set

Json = dict[str, Any]
LOG = [f"m{number}" for number in range(MESSAGES)]
STEPS = ["close", "stop", "compare", "prepare", "hand", "create", "lead", "join", "ready", "prove"]


@pytest.fixture(autouse=True)
def _no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration_checks, "STILL_S", 0.0)


async def _migrate(world: MigrationWorld, **manner: Any) -> MigrationPlan:
    said: list[str] = []
    given: Json = {"say": said.append, "poll_s": 0.0, "timeout_s": 0.3} | manner
    return await MigrationRun(world.kube, world.request(), MigrationOptions(**given)).run()


def _has_moved(world: MigrationWorld) -> None:
    """Check that nothing is lost: the old master's volume is the first broker's, with all that it held."""
    kube = world.kube
    assert kube.lost == []
    assert kube.claims_with_empty_volumes == []
    group = kube.objects["BrokerGroup", NAMESPACE, GROUP]
    assert group["status"]["master"]["name"] == f"{GROUP}-0"
    for number, pod in enumerate(world.pods):
        claim = kube.claim(f"data-{GROUP}-{number}")
        assert claim is not None
        assert claim["spec"]["volumeName"] == f"volume-of-{pod}"
        assert claim["metadata"]["labels"]["rocketmq-ha.dev/group"] == GROUP
        volume = kube.objects["PersistentVolume", "", f"volume-of-{pod}"]
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete", "as it was before"
        assert volume["metadata"]["annotations"] == {}
        assert kube.claim(f"data-{pod}") is None
        assert world.old_store(pod).log == (LOG if world.old_kind is OldBrokerKind.MASTER_SLAVE else [])
    assert "rocketmq-ha.dev/migrated" in group["metadata"]["annotations"]


@pytest.mark.parametrize("slaves", [0, 1, 2])
async def test_a_master_with_its_slaves_becomes_a_broker_group(slaves: int) -> None:
    world = MigrationWorld(slaves)
    plan = await _migrate(world)
    assert [name for name, _, _ in plan.steps] == STEPS
    assert not plan.step
    _has_moved(world)
    kept = [task for task in world.kube.tasks if "--keep=keep" in task]
    assert len(kept) == 1 + slaves, "equal logs are not copied again"


async def test_what_is_migrated_is_left_as_it_is() -> None:
    world = MigrationWorld()
    await _migrate(world)
    picture, writes = world.picture(), len(world.kube.writes)
    assert not (await _migrate(world)).step
    assert world.picture() == picture
    assert len(world.kube.writes) == writes


async def test_dledger_leaves_topics_and_groups_only() -> None:
    world = MigrationWorld(2, OldBrokerKind.DLEDGER)
    plan = await _migrate(world)
    assert [name for name, _, _ in plan.steps] == [step for step in STEPS if step != "compare"]
    _has_moved(world)
    assert sum("--keep=metadata" in task for task in world.kube.tasks) == 3


async def test_dledger_waits_until_all_is_read_and_says_for_what() -> None:
    world = MigrationWorld(2, OldBrokerKind.DLEDGER)
    world.old_store("old-master-0").unread = 12
    with pytest.raises(RequestError, match="billing has not read 12 messages of Payments"):
        await _migrate(world)
    assert set(world.kube.permissions.values()) == {4}
    assert world.old_store("old-master-0").log == LOG
    world.old_store("old-master-0").unread = 0
    await _migrate(world)
    _has_moved(world)


@pytest.mark.parametrize(
    "log", [LOG[:-1], [*LOG, "more"], [*LOG[:-1], "other", "more"], []], ids=["less", "more", "other", "none"]
)
async def test_a_slave_that_differs_after_the_stop_is_emptied_and_the_master_goes_first(
    log: list[str],
) -> None:
    world = MigrationWorld()
    await _migrate_until(world, "compare")
    world.old_store("old-slave-0").log = log
    before = await _migrate(world, dry_run=True)
    assert before.step == "compare"
    await _migrate_until(world, "prepare")
    plan = await _migrate(world, dry_run=True)
    assert f"empty the store of old-slave-0: it holds {len(log):,} messages" in plan.title
    await _migrate(world)
    _has_moved(world)
    assert [task for task in world.kube.tasks if "--keep=empty" in task]


async def test_slaves_are_emptied_unseen_where_that_is_asked_for() -> None:
    world = MigrationWorld()
    world.empty_slaves = True
    world.kube.silent.add("old-slave-0")
    world.old_store("old-slave-0").log = [*LOG, "more"]
    _without(("Pod", NAMESPACE, "old-slave-0"))(world)
    await _migrate(world)
    _has_moved(world)
    assert [task.split()[1] for task in world.kube.tasks if task.startswith("verify")] == [
        "/volume/home/store/commitlog"
    ]


async def test_where_a_slave_that_is_not_asked_has_its_store_must_be_known_all_the_same() -> None:
    world = MigrationWorld()
    world.empty_slaves = True
    world.kube.objects["PersistentVolumeClaim", NAMESPACE, "data-old-slave-0"]["spec"].pop("volumeName")
    with pytest.raises(RequestError, match="claim data-old-slave-0 of old-slave-0 is not bound to a volume"):
        await _migrate(world)
    assert set(world.kube.permissions.values()) == {6}


async def _migrate_until(world: MigrationWorld, step: str) -> None:
    """Go on, step by step, until that one is next."""
    for _ in STEPS:
        if (await _migrate(world, dry_run=True)).step == step:
            return
        await _migrate(world, one_step=True)
    raise AssertionError(f"{step} never came")


def _without(key: tuple[str, str, str]) -> Callable[[MigrationWorld], None]:
    return lambda world: world.kube.objects.pop(key, None) and None


def _spec(**fields: Any) -> Callable[[MigrationWorld], None]:
    return lambda world: world.spec.update(fields)


def _said(pod: str, **fields: Any) -> Callable[[MigrationWorld], None]:
    return lambda world: world.kube.changed.update({pod: fields})


def _there(kind: str, name: str) -> Callable[[MigrationWorld], None]:
    body = stateful_set(name, 0) | {"kind": kind}
    if kind == "BrokerGroup":
        body["spec"] = {"replicas": 0}
    if kind == "PersistentVolumeClaim":
        body["spec"] = {}
    return lambda world: world.kube.objects.update({(kind, NAMESPACE, name): body})


def _owned(world: MigrationWorld) -> None:
    live = world.kube.objects["StatefulSet", NAMESPACE, "old-slave"]
    live["metadata"]["ownerReferences"] = [
        {"kind": "RocketMQ", "name": "theirs", "uid": "uid-of-old-slave", "controller": True}
    ]


def _mounted(**mount: str) -> Callable[[MigrationWorld], None]:
    def change(world: MigrationWorld) -> None:
        live = world.kube.objects["StatefulSet", NAMESPACE, "old-master"]
        live["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", **mount}]

    return change


REFUSALS: list[tuple[Callable[[MigrationWorld], None], str]] = [
    (_without(("RocketMQCluster", NAMESPACE, "main")), "there is no RocketMQCluster main"),
    (_there("BrokerGroup", GROUP), "there is a BrokerGroup orders already"),
    (_there("StatefulSet", GROUP), "StatefulSet orders has the name that the operator needs"),
    (_there("PersistentVolumeClaim", "data-orders-1"), "there is a claim data-orders-1 already"),
    (_spec(replicas=3), "spec.replicas of the BrokerGroup is 3, and there are 2 volumes"),
    (
        _without(("StatefulSet", NAMESPACE, "old-slave")),
        "StatefulSet old-slave of pod old-slave-0 does not exist",
    ),
    (_owned, "StatefulSet old-slave belongs to RocketMQ theirs"),
    (lambda world: world.kube.silent.add("old-slave-0"), "old-slave-0 does not answer at port 10911"),
    (_said("old-master-0", name="stock"), "old-master-0 is of stock, and not of orders"),
    (_said("old-slave-0", controller_mode=True), "old-slave-0 has controllers already"),
    (_said("old-master-0", dledger=True), "old-master-0 is not of that kind: its path is dledger"),
    (_said("old-master-0", kind="defaultRocksDB"), "old-master-0 has a store of type defaultRocksDB"),
    (_said("old-slave-0", commit_log="/data/a,/data/b"), "old-slave-0 has its log in several places"),
    (_said("old-master-0", broker_id=1), "old-master-0 is a slave: its brokerId is 1"),
    (_said("old-slave-0", broker_id=0), "old-slave-0 is a master: its brokerId is 0"),
    (_spec(logFileMebibytes=1024), "spec.logFileMebibytes must be 64"),
    (_mounted(mountPath="/elsewhere"), "lies on no volume of a claim"),
    (_mounted(mountPath="/data", subPathExpr="$(POD)"), "subPathExpr, which is not followed"),
]


@pytest.mark.parametrize(("change", "complaint"), REFUSALS, ids=[one[1] for one in REFUSALS])
async def test_what_is_in_the_way_is_named_before_anything_is_changed(
    change: Callable[[MigrationWorld], None], complaint: str
) -> None:
    world = MigrationWorld()
    change(world)
    with pytest.raises(RequestError) as refused:
        await _migrate(world)
    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert [task for task in world.kube.tasks if not task.startswith("survey")] == []
    assert [one for one in world.kube.writes if "migrate-survey" not in one] == []


async def test_a_pod_that_would_be_stopped_with_others_must_be_named_too() -> None:
    world = MigrationWorld(2)
    world.pods = world.pods[:2]
    world.spec["replicas"] = 2
    with pytest.raises(RequestError, match="old-slave-1 is of StatefulSet old-slave too"):
        await _migrate(world)


async def test_an_old_broker_that_does_not_run_must_be_started_first() -> None:
    world = MigrationWorld()
    await world.kube.patch("StatefulSet", NAMESPACE, "old-master", {"spec": {"replicas": 0}})
    with pytest.raises(RequestError, match="old-master-0 does not run"):
        await _migrate(world)


async def test_brokers_are_not_stopped_while_a_slave_lacks_something() -> None:
    world = MigrationWorld()
    world.old_store("old-slave-0").log = LOG[:-3]
    with pytest.raises(RequestError, match=r"not in 0\.3 s: old-slave-0 is 300 bytes behind old-master-0"):
        await _migrate(world)
    world.old_store("old-slave-0").log = [*LOG, "more"]
    with pytest.raises(RequestError, match="old-slave-0 is 100 bytes ahead of old-master-0"):
        await _migrate(world)
    assert set(world.kube.permissions) == set(world.pods), "both run"


async def test_logs_must_stand_still_for_longer_than_clients_keep_a_route(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(migration_checks, "STILL_S", 40.0)
    with pytest.raises(RequestError, match="the logs have stood still for 0 s of 40 s"):
        await _migrate(MigrationWorld())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"log": LOG[:-1]}, "ends at 99,900, and ended at 100,000 when its broker ran"),
        ({"damage": {"offset": 300, "problem": "its checksum is wrong"}}, "is damaged at 300"),
    ],
)
async def test_a_masters_log_that_is_less_than_it_was_is_not_gone_on_with(
    change: Json, complaint: str
) -> None:
    world = MigrationWorld()
    await _migrate_until(world, "compare")
    for name, value in change.items():
        setattr(world.old_store("old-master-0"), name, value)
    with pytest.raises(RequestError, match=complaint):
        await _migrate(world)
    assert not world.old_store("old-master-0").is_ours
    await _migrate(world, undo=True)
    assert set(world.kube.permissions.values()) == {6}


@pytest.mark.parametrize("name", ["topics", "groups", "offsets", "consumed"])
async def test_what_the_new_master_lacks_is_named(name: str) -> None:
    world = MigrationWorld()
    await _migrate_until(world, "prove")
    store = world.old_store("old-master-0")
    setattr(store, name, getattr(store, name) - 1)
    with pytest.raises(RequestError, match=r"orders-0 has .* old-master-0 had"):
        await _migrate(world)


async def test_a_volume_that_is_somebody_elses_by_then_is_not_touched() -> None:
    world = MigrationWorld()
    await _migrate_until(world, "prepare")
    volume = world.kube.objects["PersistentVolume", "", "volume-of-old-slave-0"]
    volume["spec"]["claimRef"] = {"namespace": NAMESPACE, "name": "theirs"}
    with pytest.raises(
        RequestError, match="volume-of-old-slave-0 of old-slave-0 is gone, or of another claim"
    ):
        await _migrate(world)


@pytest.mark.parametrize(
    ("ended", "complaint"),
    [
        ((0, '{"brokers": ['), "orders-migrate-survey sent an unreadable answer"),
        ((0, "[" * 4_000), "sent an unreadable answer: .* nested too deeply"),
        ((1, "ha-sidecar: no such thing"), "orders-migrate-survey ended with 1: ha-sidecar: no such thing"),
    ],
)
async def test_a_pod_that_fails_is_told_of_in_its_own_words(
    monkeypatch: pytest.MonkeyPatch, ended: tuple[int, str], complaint: str
) -> None:
    world = MigrationWorld()
    monkeypatch.setattr(world.kube, "_done", lambda *_: ended)
    with pytest.raises(RequestError, match=complaint):
        await _migrate(world)
    assert not [key for key in world.kube.objects if "migrate" in key[2]], "it is not left behind"


async def test_nothing_is_done_without_a_yes() -> None:
    world = MigrationWorld()
    asked: list[str] = []

    async def no(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(RequestError, match="not confirmed"):
        await _migrate(world, confirm=no)
    assert asked == ["close?"]
    assert set(world.kube.permissions.values()) == {6}


async def test_each_step_that_writes_is_asked_for_once() -> None:
    world = MigrationWorld()
    asked: list[str] = []

    async def yes(question: str) -> bool:
        asked.append(question)
        return True

    await _migrate(world, confirm=yes)
    assert asked == [f"{step}?" for step in STEPS if step not in {"lead", "ready"}]


async def test_a_dry_run_asks_brokers_and_changes_nothing() -> None:
    world = MigrationWorld()
    picture = world.picture()
    said: list[str] = []
    plan = await _migrate(world, dry_run=True, say=said.append)
    assert plan.step == "close"
    assert world.picture() == picture
    assert said[0] == " 1 left  forbid writes to old-master-0, old-slave-0"
    assert "next: forbid writes to old-master-0, old-slave-0" in said


async def _crashed(before: MigrationWorld, **manner: Any) -> int:
    """Tell it once, then kill it after each of its writes and call it again: it ends the same."""
    whole = before.fork()
    await _migrate(whole, **manner)
    writes = whole.kube.writes[len(before.kube.writes) :]
    for number in range(1, len(writes) + 1):
        world = before.fork()
        world.kube.crash_after = len(before.kube.writes) + number
        with pytest.raises(CrashError):
            await _migrate(world, **manner)
        world.kube.crash_after = None
        await _migrate(world, **manner)
        assert world.picture() == whole.picture(), f"killed after write {number}: {writes[number - 1]}"
    return len(writes)


@pytest.mark.parametrize(("slaves", "course"), [(0, "master-slave"), (1, "master-slave"), (1, "dledger")])
async def test_a_migration_that_is_killed_after_any_write_is_completed_by_the_next(
    slaves: int, course: str
) -> None:
    assert await _crashed(MigrationWorld(slaves, OldBrokerKind(course))) > 20


async def test_one_with_an_unequal_slave_is_completed_too() -> None:
    world = MigrationWorld()
    await _migrate_until(world, "compare")
    world.old_store("old-slave-0").log = [*LOG, "more"]
    await _crashed(world)


@pytest.mark.parametrize("step", ["stop", "compare", "prepare"])
async def test_it_can_be_undone_until_a_store_is_prepared(step: str) -> None:
    world = MigrationWorld()
    before = world.fork()
    await _migrate_until(world, step)
    await _crashed(world, undo=True)
    await _migrate(world, undo=True)
    assert world.picture()["stores"] == before.picture()["stores"]
    assert world.picture()["permissions"] == before.picture()["permissions"]
    assert [one for one in world.picture()["annotations"].values() if one] == []
    await _migrate(world)
    _has_moved(world)


@pytest.mark.parametrize("step", ["hand", "create", "join"])
async def test_it_cannot_be_undone_later(step: str) -> None:
    world = MigrationWorld()
    await _migrate_until(world, step)
    with pytest.raises(RequestError, match="undo is impossible, continue without --undo"):
        await _migrate(world, undo=True)
    await _migrate(world)
    _has_moved(world)
