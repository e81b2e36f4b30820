"""The short way of a takeover: from an event of the controllers to the slices, without a look in between."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from rocketmq_operator.clients.api import PeerUnavailableError
from rocketmq_operator.handlers.observing.clusters_and_groups import observe_group
from rocketmq_operator.handlers.takeover import HELD_AFTER_DELETION_S, Takeover
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.observation import ObservationError
from rocketmq_operator.plan.group.observed import ObservedGroup
from rocketmq_operator.plan.pods.observed import ObservedPod, parse_pod
from testkit.memory.kubernetes import MemoryKube
from testkit.worlds.operator import OperatorWorld

Json = dict[str, Any]


class _Leader:
    """Says whether the operator may act, and records the groups it woke."""

    def __init__(self) -> None:
        self.acts = True
        self.woken: list[tuple[str, str]] = []
        self.held_s: list[float] = []

    def may_act(self) -> bool:
        return self.acts

    def wake(self, namespace: str, group: str) -> None:
        self.woken.append((namespace, group))

    def hold(self, namespace: str, group: str, hold_s: float) -> None:
        assert (namespace, group) == ("shop", "orders")
        self.held_s.append(hold_s)


async def _world(cluster: Json | None = None) -> tuple[OperatorWorld, Takeover, _Leader]:
    world = OperatorWorld({"logReplicas": 1}, cluster)
    await world.settle()
    leader = _Leader()
    takeover = Takeover(world.kube, leader.may_act, leader.wake, standby_s=0.05, hold=leader.hold)
    takeover.note_group(await _look(world))
    world.kube.writes.clear()
    return world, takeover, leader


async def _look(world: OperatorWorld) -> ObservedGroup:
    observed = await observe_group(world.pass_context().environment, "shop", "orders")
    assert observed is not None
    return observed


def _event(world: OperatorWorld, new: str, epoch: int, old: str = "orders-0", **changes: Any) -> Json:
    addresses = {
        name: f"{world.get('Service', name)['spec']['clusterIP']}:10911" for name in ("orders-0", "orders-1")
    }
    event = {
        "kind": "MasterElected",
        "cluster": "main",
        "group": "orders",
        "epoch": epoch,
        "ts_ns": int(world.controllers.now.timestamp()) * 10**9,
        "attrs": {
            "cause": "ConnectionClosed",
            "old_master_address": addresses[old],
            "new_master_address": addresses[new],
            "new_master_id": "2",
            "sync_state_set_before": "1,2,3",
            "sync_state_set_after": "2",
        },
    }
    return event | changes


def _grown(epoch: int, members: str = "2,3") -> Json:
    """Return the event of a new master that has its copy."""
    attributes = {"sync_state_set_before": "2", "sync_state_set_after": members}
    return {
        "kind": "SyncStateSetChanged",
        "cluster": "main",
        "group": "orders",
        "epoch": epoch,
        "attrs": attributes,
    }


def _taken(epoch: int) -> Json:
    return {"kind": "RoleTaken", "group": "orders", "epoch": epoch, "attrs": {}}


async def _world_of_older_companions() -> tuple[OperatorWorld, Takeover]:
    """Return a world whose companions have no port where clients of a former master could wait."""
    world, takeover, _ = await _world()
    for name in ("orders-0", "orders-1"):
        pod = replace(parse_pod(world.get("Pod", name)), guest_port=None)
        takeover.note_pod("shop", "orders", pod, gone=False)
    return world, takeover


async def _fail_over(takeover: Takeover, elected: Json) -> int:
    """Tell of an election and of all that follows it; return how many slices were written."""
    told = (elected, _taken(elected["epoch"]), _grown(elected["epoch"]))
    return sum([await takeover.on_event("shop", event) for event in told])


async def test_a_dead_masters_address_moves_with_one_write_and_no_read() -> None:
    world, takeover, leader = await _world()
    assert await _fail_over(takeover, _event(world, "orders-1", 2)) == 1
    assert world.kube.writes == ["apply EndpointSlice orders-0"]
    assert world.server_of("orders-0") == "orders-1"
    assert set(leader.woken) == {("shop", "orders")}


async def test_the_addresses_of_all_listeners_move_with_the_one_inside_and_no_read() -> None:
    listener = {"name": "outside", "type": "NodePort", "advertisedHost": "mq.example"}
    world, takeover, _ = await _world({"listeners": [listener]})
    assert await _fail_over(takeover, _event(world, "orders-1", 2)) == 2
    assert world.kube.writes == ["apply EndpointSlice orders-0", "apply EndpointSlice orders-0-outside"]
    assert [world.server_of(name) for name in ("orders-0", "orders-0-outside")] == ["orders-1"] * 2


async def test_an_address_moves_with_the_election_to_where_clients_wait_for_the_role() -> None:
    world, takeover, _ = await _world()
    assert await takeover.on_event("shop", _event(world, "orders-1", 2)) == 1
    assert _led_to(world, "orders-0") == ("orders-1", names.BROKER_GUEST_PORT)
    for event in (_taken(2), _grown(2)):
        assert await takeover.on_event("shop", event) == 0


async def test_an_address_stays_until_a_new_master_with_an_older_companion_has_a_copy() -> None:
    world, takeover = await _world_of_older_companions()
    for event in (_event(world, "orders-1", 2), _taken(2), _grown(2, "2"), _grown(1)):
        assert await takeover.on_event("shop", event) == 0
    assert world.server_of("orders-0") == "orders-0"
    assert await takeover.on_event("shop", _grown(2)) == 1
    assert world.server_of("orders-0") == "orders-1"


@pytest.mark.parametrize(
    ("before", "after"), [("1,2", "2"), ("1,2,3", "2,3")], ids=["no copy is left", "it has its copy already"]
)
async def test_an_address_moves_as_the_role_is_taken_with_an_older_companion_if_no_copy_is_waited_for(
    before: str, after: str
) -> None:
    world, takeover = await _world_of_older_companions()
    event = _event(world, "orders-1", 2)
    event["attrs"] |= {"sync_state_set_before": before, "sync_state_set_after": after}
    assert await takeover.on_event("shop", event) == 0
    assert await takeover.on_event("shop", _taken(2)) == 1


async def test_an_event_older_than_the_last_look_moves_nothing() -> None:
    world, takeover, _ = await _world()
    assert await _fail_over(takeover, _event(world, "orders-1", 1)) == 0
    assert world.kube.writes == []


async def test_a_look_that_is_older_than_an_event_does_not_move_an_address_back() -> None:
    world, takeover, _ = await _world()
    old_look = await _look(world)
    await _fail_over(takeover, _event(world, "orders-1", 2))
    takeover.note_group(old_look)
    assert await _fail_over(takeover, _event(world, "orders-1", 2)) == 0


async def test_an_operator_that_stands_by_moves_what_the_acting_one_did_not() -> None:
    world, takeover, leader = await _world()
    leader.acts = False
    assert await _fail_over(takeover, _event(world, "orders-1", 2)) == 1
    assert world.server_of("orders-0") == "orders-1"


async def test_an_operator_that_stands_by_leaves_alone_what_was_done_meanwhile() -> None:
    world, takeover, leader = await _world()
    leader.acts = False
    other = Takeover(world.kube, lambda: True, leader.wake)
    other.note_group(await _look(world))
    under_way = asyncio.create_task(_fail_over(takeover, _event(world, "orders-1", 2)))
    await asyncio.sleep(0)
    await _fail_over(other, _event(world, "orders-1", 2))
    assert await under_way == 0
    assert world.kube.writes == ["apply EndpointSlice orders-0"]


async def test_an_operator_that_was_frozen_moves_no_address_that_a_newer_epoch_decided() -> None:
    world, takeover, leader = await _world()
    acting = Takeover(world.kube, lambda: True, leader.wake)
    acting.note_group(await _look(world))
    await _fail_over(acting, _event(world, "orders-1", 2))
    await _fail_over(acting, _event(world, "orders-0", 3, old="orders-1"))
    world.kube.writes.clear()
    leader.acts = False
    assert await _fail_over(takeover, _event(world, "orders-1", 2)) == 0
    assert world.kube.writes == []


async def test_an_operator_that_stands_by_loses_against_one_that_writes_between_its_read_and_its_write() -> (
    None
):
    world, takeover, leader = await _world()
    leader.acts = False
    read = world.kube.get

    async def read_then_somebody_writes(kind: str, namespace: str, name: str) -> Json | None:
        found = await read(kind, namespace, name)
        world.kube.objects[kind, namespace, name]["metadata"]["resourceVersion"] = "newer"
        return found

    world.kube.get = read_then_somebody_writes  # type: ignore[method-assign]  # the moment that matters
    assert await _fail_over(takeover, _event(world, "orders-1", 2)) == 0
    assert world.kube.writes == []


async def test_an_operator_that_stands_by_follows_the_newest_of_two_elections() -> None:
    world, takeover, leader = await _world()
    leader.acts = False
    first = asyncio.create_task(_fail_over(takeover, _event(world, "orders-1", 2)))
    await asyncio.sleep(0)
    assert await _fail_over(takeover, _event(world, "orders-0", 3, old="orders-1")) >= 0
    assert await first == 0
    assert world.server_of("orders-0") == "orders-0"


async def test_a_paused_group_keeps_its_addresses() -> None:
    world, takeover, _ = await _world()
    world.write_group({"logReplicas": 1, "paused": True})
    takeover.note_group(await _look(world))
    assert await _fail_over(takeover, _event(world, "orders-1", 2)) == 0


async def test_no_address_moves_to_a_master_that_a_watch_saw_go() -> None:
    world, takeover, _ = await _world()
    takeover.note_pod("shop", "orders", parse_pod(world.get("Pod", "orders-1")), gone=True)
    await _fail_over(takeover, _event(world, "orders-1", 2))
    assert world.server_of("orders-0") == "orders-0"


async def test_passes_wait_from_the_deletion_of_the_masters_pod_until_clients_have_another() -> None:
    world, takeover, leader = await _world()
    for pod in ("orders-1", "orders-log-0"):
        takeover.note_pod("shop", "orders", _ending(world, pod), gone=False)
    assert leader.held_s == [], "the operator may inspect a member that is not master"
    for _ in range(3):
        takeover.note_pod("shop", "orders", _ending(world, "orders-0"), gone=False)
    assert leader.held_s == [HELD_AFTER_DELETION_S], "one that ends for long must not hold passes for ever"


def _led_to(world: OperatorWorld, member: str) -> tuple[str, int]:
    """Return the pod that serves a member's address, and its port."""
    ports = {one["name"]: one["port"] for one in world.get("EndpointSlice", member)["ports"]}
    return world.server_of(member), ports["remoting"]


async def test_who_dials_a_master_whose_pod_is_to_go_waits_at_its_companion_and_then_meets_the_next_one() -> (
    None
):
    world, takeover, _ = await _world()
    takeover.note_pod("shop", "orders", _ending(world, "orders-0"), gone=False)
    await asyncio.gather(*takeover.moving)
    assert _led_to(world, "orders-0") == ("orders-0", names.BROKER_HOLD_PORT)
    assert _led_to(world, "orders-1") == ("orders-1", names.BROKER_PORT)
    await _fail_over(takeover, _event(world, "orders-1", 2))
    assert _led_to(world, "orders-0") == ("orders-1", names.BROKER_GUEST_PORT)
    assert _led_to(world, "orders-1") == ("orders-1", names.BROKER_PORT)


async def test_who_dials_a_former_master_meets_a_successor_with_an_older_companion_at_its_own_port() -> None:
    world, takeover = await _world_of_older_companions()
    takeover.note_pod("shop", "orders", parse_pod(world.get("Pod", "orders-0")), gone=True)
    await _fail_over(takeover, _event(world, "orders-1", 2))
    assert _led_to(world, "orders-0") == ("orders-1", names.BROKER_PORT)


@pytest.mark.parametrize(
    ("spec", "lost"),
    [
        ({"durability": "Quorum", "logReplicas": 0}, ""),
        ({"durability": "Async"}, ""),
        ({"paused": True}, ""),
        ({}, "orders-1"),
    ],
    ids=["it hands over first", "it hands over first, alone", "paused", "no successor"],
)
async def test_who_dials_a_master_that_is_not_killed_at_once_meets_it(spec: Json, lost: str) -> None:
    world, takeover, _ = await _world()
    world.write_group({"logReplicas": 1, **spec})
    observed = await _look(world)
    pods = {name: replace(pod, ready=pod.ready and name != lost) for name, pod in observed.pods.items()}
    takeover.note_group(replace(observed, pods=pods))
    takeover.note_pod("shop", "orders", _ending(world, "orders-0"), gone=False)
    await asyncio.gather(*takeover.moving)
    assert _led_to(world, "orders-0") == ("orders-0", names.BROKER_PORT)


async def test_who_dials_a_master_with_an_older_companion_meets_the_master() -> None:
    world, takeover, _ = await _world()
    takeover.note_pod("shop", "orders", replace(_ending(world, "orders-0"), hold_port=None), gone=False)
    await asyncio.gather(*takeover.moving)
    assert _led_to(world, "orders-0") == ("orders-0", names.BROKER_PORT)


async def test_only_the_operator_that_acts_leads_those_who_dial_to_the_companion() -> None:
    world, takeover, leader = await _world()
    leader.acts = False
    takeover.note_pod("shop", "orders", _ending(world, "orders-0"), gone=False)
    assert not takeover.moving


def _ending(world: OperatorWorld, name: str) -> ObservedPod:
    return replace(parse_pod(world.get("Pod", name)), deleting=True)


async def test_the_pass_after_a_takeover_finds_nothing_to_correct() -> None:
    world, takeover, _ = await _world()
    world.kube.unready.add("orders-0")
    world.kube.remove("Pod", "shop", "orders-0")
    await _fail_over(takeover, _event(world, "orders-1", 2))
    world.kube.writes.clear()
    await world.one_pass()
    assert [words for words in world.kube.writes if "EndpointSlice" in words] == []


async def test_other_events_only_wake_the_group() -> None:
    world, takeover, leader = await _world()
    assert await takeover.on_event("shop", {"kind": "SyncStateSetChanged", "group": "orders"}) == 0
    assert (leader.woken, world.kube.writes) == ([("shop", "orders")], [])


async def test_an_event_without_its_shape_is_the_controllers_fault() -> None:
    world, takeover, _ = await _world()
    with pytest.raises(ObservationError, match="new_master_id"):
        await takeover.on_event("shop", _event(world, "orders-1", 2, attrs={}))


async def test_a_write_that_fails_is_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world, takeover, _ = await _world()
    whole, tries = MemoryKube.apply, []

    async def failing(self: MemoryKube, body: Json) -> Json:
        tries.append(body["metadata"]["name"])
        if len(tries) == 1:
            raise PeerUnavailableError("cut")
        return await whole(self, body)

    monkeypatch.setattr(MemoryKube, "apply", failing)
    assert await _fail_over(takeover, _event(world, "orders-1", 2)) == 1
    assert tries == ["orders-0", "orders-0"]


class _Streams:
    """Controllers whose first stream breaks."""

    def __init__(self, events: list[Json], seen: asyncio.Event) -> None:
        self.tries = 0
        self._events = events
        self._observations = seen

    async def events(self) -> AsyncIterator[Json]:
        self.tries += 1
        if self.tries == 1:
            raise PeerUnavailableError("gone")
        for event in self._events:
            yield event
        self._observations.set()
        await asyncio.Event().wait()


async def test_a_broken_stream_is_opened_again() -> None:
    world, takeover, _ = await _world()
    seen = asyncio.Event()
    streams: Any = _Streams([_event(world, "orders-1", 2), _grown(2)], seen)
    following = asyncio.create_task(takeover.follow("shop", "main", streams))
    await asyncio.wait_for(seen.wait(), 30)
    following.cancel()
    assert world.server_of("orders-0") == "orders-1"


async def test_an_event_of_another_cluster_at_the_same_controllers_moves_no_address() -> None:
    world, takeover, leader = await _world()
    seen = asyncio.Event()
    events = [_event(world, "orders-1", 2), _grown(2)]
    streams: Any = _Streams([event | {"cluster": "second"} for event in events], seen)
    following = asyncio.create_task(takeover.follow("shop", "main", streams))
    await asyncio.wait_for(seen.wait(), 30)
    following.cancel()
    assert world.kube.writes == []
    assert leader.woken == []


async def test_three_controllers_that_tell_the_same_and_one_that_tells_it_later_make_one_write() -> None:
    world, takeover, _ = await _world()
    await asyncio.gather(*(_fail_over(takeover, _event(world, "orders-1", 2)) for _ in range(3)))
    assert await _fail_over(takeover, _event(world, "orders-1", 2)) == 0
    assert world.kube.writes == ["apply EndpointSlice orders-0"]
