"""Two operators and one Lease, on clocks that tests move."""

from datetime import UTC, datetime

import pytest

from rocketmq_operator.clients.api import KubeConflictError, PeerUnavailableError
from rocketmq_operator.handlers.leadership import HEARD_MAX_S, LeaseHolder
from rocketmq_operator.plan.leadership.lease import DURATION_S, RENEW_DEADLINE_S
from testkit.memory.kubernetes import Json, MemoryKube

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class _Leases(MemoryKube):
    """Objects whose versions are checked, as the API server does on create and replace."""

    def __init__(self) -> None:
        super().__init__()
        self.cut_off = False

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        if self.cut_off:
            raise PeerUnavailableError("cut off")
        return await super().get(kind, namespace, name)

    async def create(self, body: Json) -> Json:
        if (body["kind"], body["metadata"]["namespace"], body["metadata"]["name"]) in self.objects:
            raise KubeConflictError("exists")
        return await super().create(body)

    async def replace(self, body: Json) -> Json:
        live = self.objects[body["kind"], body["metadata"]["namespace"], body["metadata"]["name"]]
        if live["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise KubeConflictError("changed")
        return await super().replace(body)


class _Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def read(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


def _pair(clock: _Clock) -> tuple[_Leases, LeaseHolder, LeaseHolder]:
    kube = _Leases()
    one, two = (LeaseHolder(kube, "system", name, lambda: NOW, clock.read) for name in ("one", "two"))
    return kube, one, two


async def test_the_first_acts_and_the_second_watches(clock: _Clock) -> None:
    _, one, two = _pair(clock)
    await one.once()
    await two.once()
    assert (one.may_act(), two.may_act()) == (True, False)


async def test_a_holder_that_renews_keeps_it(clock: _Clock) -> None:
    _, one, two = _pair(clock)
    for _ in range(20):
        await one.once()
        await two.once()
        clock.now_s += 2
    assert (one.may_act(), two.may_act()) == (True, False)


async def test_never_do_two_act(clock: _Clock) -> None:
    kube, one, two = _pair(clock)
    await one.once()
    await two.once()
    took_s = 0.0
    for _ in range(40):
        clock.now_s += 0.5
        await two.once()
        assert not (one.may_act() and two.may_act())
        took_s = took_s or (clock.now_s if two.may_act() else 0.0)
    assert DURATION_S <= took_s <= DURATION_S + 0.5
    assert kube.objects["Lease", "system", "rocketmq-operator"]["spec"]["holderIdentity"] == "two"


async def test_a_holder_that_is_cut_off_stops_by_itself(clock: _Clock) -> None:
    kube, one, _ = _pair(clock)
    await one.once()
    kube.cut_off = True
    clock.now_s = RENEW_DEADLINE_S
    with pytest.raises(PeerUnavailableError):
        await one.once()
    assert not one.may_act()


async def test_a_lease_that_is_given_away_is_taken_at_once(clock: _Clock) -> None:
    _, one, two = _pair(clock)
    await one.once()
    await two.once()
    await one.release()
    await two.once()
    assert (one.may_act(), two.may_act()) == (False, True)


async def test_of_two_who_take_it_at_once_one_acts(clock: _Clock) -> None:
    kube, one, two = _pair(clock)
    await one.once()
    await one.release()
    before = await kube.get("Lease", "system", "rocketmq-operator")
    await two.once()
    stale = LeaseHolder(_Stale(kube, before), "system", "three", lambda: NOW, clock.read)
    await stale.once()
    assert (two.may_act(), stale.may_act()) == (True, False)


class _Stale(_Leases):
    """Shows an old version, writes to the real one."""

    def __init__(self, kube: _Leases, shown: Json | None) -> None:
        super().__init__()
        self._kube = kube
        self._shown = shown

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        return self._shown

    async def replace(self, body: Json) -> Json:
        return await self._kube.replace(body)


async def test_how_long_the_api_server_has_answered_counts_from_the_end_of_its_last_silence(
    clock: _Clock,
) -> None:
    kube, one, _ = _pair(clock)
    clock.now_s = HEARD_MAX_S / 2
    await one.once()
    clock.now_s += HEARD_MAX_S / 2
    assert one.heard_for_s == HEARD_MAX_S, "a gap below the bound does not count"
    kube.cut_off = True
    clock.now_s += HEARD_MAX_S
    assert one.heard_for_s == 0.0
    kube.cut_off = False
    await one.once()
    clock.now_s += 1.0
    assert one.heard_for_s == 1.0


async def test_a_renewal_that_is_still_on_its_way_does_not_keep_the_lease_from_being_given_away(
    clock: _Clock,
) -> None:
    kube, one, two = _pair(clock)
    await one.once()
    await two.once()
    twin = LeaseHolder(kube, "system", "one", lambda: NOW, clock.read)
    read, late = kube.get, [twin.once]

    async def get(kind: str, namespace: str, name: str) -> Json | None:
        found = await read(kind, namespace, name)
        if late:
            await late.pop()()  # lands between the look and the write
        return found

    kube.get = get  # type: ignore[method-assign] # of this test's only
    await one.release()
    await two.once()
    assert two.may_act()
