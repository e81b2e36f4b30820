"""Users on a real cluster: a client with its own user is never refused, whatever happens to the brokers.

The cluster and its group are of their own, because users restart brokers and refuse other clients.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from testkit.kube.group import KubeGroup
from testkit.kube.kubectl import Json, KubeError, until
from testkit.kube.pods.grpc_pod import GrpcPod
from testkit.kube.pods.load_pod import ONE_OF_EACH_THREAD, LoadPod, failures
from testkit.kube.release import ROCKETMQ_IMAGE, Release, upgrade
from testkit.rocketmq.load import LoadSettings

pytestmark = [
    pytest.mark.full,
    pytest.mark.timeout(1_200),
]

CLUSTER, GROUP, USER, TOPIC, READERS = "guarded", "vault", "sender", "ledger", "read-back-grpc"
BILLS: Final = "bills"
"""The topic of clients of RocketMQ 5, which read it to its end."""
SECRET_NAME: Final = f"{USER}-user"
API: Final = "rocketmq-ha.dev/v1alpha1"
READY_WITHIN_S = 420.0
ACTED_WITHIN_S = 120.0
RIGHTS: Final = [
    {"resource": f"Topic:{TOPIC}", "actions": ["Pub", "Sub", "Get"]},
    {"resource": "Group:read-back-*", "actions": ["Sub"]},
    {"resource": f"Topic:{BILLS}", "actions": ["Pub", "Sub"]},
]
MINE: Final = f"rmqu/{USER}"
METADATA: Final = (MINE, f"rmqt/{TOPIC}", f"rmqt/{BILLS}", f"rmqcg/{READERS}")
BROKERS: Final[Json] = {"cpu": "250m", "memory": "1536Mi"}
"""With room for a proxy in each."""
MESSAGES: Final = 20
PROXY: Final = f"{CLUSTER}-proxy:8081"


def _object(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def vault(release: Release, alone: None) -> Iterator[KubeGroup]:
    """Make a cluster with users, a group, a topic and a user, and remove them in the end."""
    asyncio.run(_make(release))
    yield KubeGroup(release.cluster, GROUP)
    asyncio.run(_remove(release))


async def _make(release: Release) -> None:
    cluster = release.cluster
    await upgrade(cluster, f"operator.clusters={{main,{CLUSTER}}}", f"operator.userSecrets={{{SECRET_NAME}}}")
    main = await cluster.get("rmqc", "main")
    spec = {key: main["spec"][key] for key in ("nameServers", "controllers", "images") if key in main["spec"]}
    users = {"authentication": {"type": "Signature"}, "authorization": {"type": "Simple"}}
    brokers = {"cluster": CLUSTER, "storage": {"size": "1Gi"}, "resources": BROKERS}
    await cluster.apply(
        _object("RocketMQCluster", CLUSTER, spec | users),
        _object("BrokerGroup", GROUP, brokers),
        _object("Topic", TOPIC, {"cluster": CLUSTER}),
        _object("Topic", BILLS, {"cluster": CLUSTER}),
        _object("ConsumerGroup", READERS, {"cluster": CLUSTER}),
        _object("User", USER, {"cluster": CLUSTER, "rights": RIGHTS}),
    )
    for what in (f"rmqbg/{GROUP}", *METADATA):
        timeout = f"--timeout={READY_WITHIN_S:.0f}s"
        await cluster.kubectl("wait", "--for=condition=Ready", what, timeout, timeout_s=READY_WITHIN_S + 10)


async def _remove(release: Release) -> None:
    cluster = release.cluster
    for what in (*METADATA, f"rmqbg/{GROUP}", f"rmqc/{CLUSTER}"):
        await cluster.kubectl("delete", what, "--ignore-not-found", timeout_s=READY_WITHIN_S)
    await cluster.kubectl(
        "delete", "pvc", "-l", f"rocketmq-ha.dev/cluster={CLUSTER}", timeout_s=READY_WITHIN_S
    )


async def _credentials(release: Release) -> tuple[str, str]:
    data = (await release.cluster.get("secret", SECRET_NAME))["data"]
    username, password = (base64.b64decode(data[key]).decode() for key in ("username", "password"))
    return username, password


@pytest.fixture
async def sender(
    release: Release, vault: KubeGroup, request: pytest.FixtureRequest
) -> AsyncIterator[LoadPod]:
    """Send as the user, with the password of the Secret that the operator made."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:38].rstrip("-")
    pod = LoadPod(release.cluster, name, ROCKETMQ_IMAGE, f"{CLUSTER}-nameserver:9876", TOPIC)
    user = await _credentials(release)
    await pod.start(LoadSettings(threads=ONE_OF_EACH_THREAD, rate=50, user=user))
    yield pod
    await pod.remove()


async def _refusals(sender: LoadPod) -> list[str]:
    """Return the sends that failed for want of a right or of a valid signature."""
    words = ("permission", "signature", "User:", "denied")
    return [one for one in failures(await sender.sends()) if any(word in one for word in words)]


async def test_a_killed_master_and_a_lost_volume_refuse_no_client(vault: KubeGroup, sender: LoadPod) -> None:
    cluster = vault.cluster
    before = await vault.until_whole(READY_WITHIN_S)
    await vault.kill_java(before.master)
    after = await vault.until_epoch_above(before.epoch)
    await vault.until_at_home()
    (slave,) = set(after.brokers) - {after.master}
    # A member without its volume lacks all users, until its companion gave it those of the master.
    await cluster.kubectl("delete", "pvc", f"data-{slave}", "--wait=false")
    await cluster.kubectl("delete", "pod", slave, timeout_s=ACTED_WITHIN_S)
    await vault.until_at_home(READY_WITHIN_S)
    await cluster.plugin("switchover", GROUP, timeout_s=ACTED_WITHIN_S)
    last = await vault.until_epoch_above(after.epoch)
    assert last.master == slave
    await vault.until_at_home()
    assert await _refusals(sender) == []
    await sender.stop_without_loss(gap_s_max=None)
    conditions = {one["type"]: one["status"] for one in (await _status(vault))["conditions"]}
    assert (conditions["Ready"], conditions["InSync"], conditions["RightsEnforced"]) == ("True",) * 3


async def test_a_new_member_and_proxies_inside_brokers_refuse_no_client_with_its_user(
    vault: KubeGroup, sender: LoadPod, release: Release
) -> None:
    await vault.cluster.patch_spec(f"rmqbg/{GROUP}", {"replicas": 3})

    async def has_three() -> bool:
        return len((await vault.view()).brokers) == 3

    await until("the group has three brokers", has_three, ACTED_WITHIN_S)
    before = await vault.until_at_home(READY_WITHIN_S)
    await vault.cluster.plugin("switchover", GROUP, "--to", f"{GROUP}-2", timeout_s=ACTED_WITHIN_S)
    await vault.until_epoch_above(before.epoch)
    await vault.until_at_home(READY_WITHIN_S)
    await vault.cluster.patch_spec(f"rmqbg/{GROUP}", {"replicas": 2})
    await vault.until_at_home(READY_WITHIN_S)
    # The proxies are in the brokers' processes: each broker is rolled for them.
    await _through_proxies(vault, "Local", await _credentials(release))
    await vault.until_at_home(READY_WITHIN_S)
    assert await _refusals(sender) == []
    await sender.stop_without_loss(gap_s_max=None)


async def test_proxies_of_their_own_let_a_client_in_with_its_user_only(
    vault: KubeGroup, release: Release
) -> None:
    await _through_proxies(vault, "Cluster", await _credentials(release))


async def _through_proxies(vault: KubeGroup, mode: str, user: tuple[str, str]) -> None:
    """Change the proxies' mode, send and read through them as the user, and with a wrong password."""
    await vault.cluster.patch_spec(f"rmqc/{CLUSTER}", {"proxy": {"mode": mode}})
    client = GrpcPod(vault.cluster, f"mode-{mode.lower()}", ROCKETMQ_IMAGE)
    await client.start()

    async def through(password: str) -> dict[str, int]:
        return await client.send_and_read(PROXY, BILLS, READERS, MESSAGES, (user[0], password))

    async def all_are_read() -> bool:
        return await through(user[1]) == {"sent": MESSAGES, "read": MESSAGES}

    await until(f"messages go through a proxy in mode {mode}", all_are_read, READY_WITHIN_S, poll_s=3.0)
    with pytest.raises(KubeError, match="check signature failed"):
        await through("guessed")
    await client.remove()


async def _status(vault: KubeGroup) -> Json:
    status: Json = (await vault.cluster.get("rmqu", USER)).get("status", {})
    return status


async def test_a_client_without_a_right_and_one_that_is_off_are_refused(
    vault: KubeGroup, sender: LoadPod
) -> None:
    await vault.cluster.patch_spec(MINE, {"rights": RIGHTS[1:]})

    async def refused(word: str) -> bool:
        found = failures(await sender.sends())
        return bool(found) and word in found[-1]

    await until("a send without a right is refused", lambda: refused("permission"), ACTED_WITHIN_S)
    await vault.cluster.patch_spec(MINE, {"rights": RIGHTS, "enabled": False})
    await until("a send of a user that is off is refused", lambda: refused("disabled"), ACTED_WITHIN_S)
    await vault.cluster.patch_spec(MINE, {"enabled": True})
    count = len([one for one in await sender.sends() if one.acknowledged])

    async def accepted() -> bool:
        return len([one for one in await sender.sends() if one.acknowledged]) > count

    await until("the user is accepted again", accepted, ACTED_WITHIN_S)


async def test_a_secret_that_is_deleted_comes_back_with_a_password_that_brokers_take(
    release: Release, vault: KubeGroup
) -> None:
    before = await _credentials(release)
    await vault.cluster.kubectl("delete", "secret", SECRET_NAME)

    async def another() -> bool:
        found = await vault.cluster.find("secrets")
        names = {one["metadata"]["name"] for one in found}
        return SECRET_NAME in names and await _credentials(release) != before

    await until("the operator has made another password", another, ACTED_WITHIN_S)
    user = await _credentials(release)
    pod = LoadPod(release.cluster, "sender-again", ROCKETMQ_IMAGE, f"{CLUSTER}-nameserver:9876", TOPIC)
    await pod.start(LoadSettings(threads=1, rate=10, user=user))
    await pod.stop()
    await pod.remove()


async def test_a_user_that_is_deleted_is_forgotten_with_its_secret(vault: KubeGroup) -> None:
    cluster = vault.cluster
    await cluster.kubectl("delete", MINE, timeout_s=ACTED_WITHIN_S)

    async def gone() -> bool:
        return SECRET_NAME not in {one["metadata"]["name"] for one in await cluster.find("secrets")}

    await until("its Secret is gone", gone, ACTED_WITHIN_S)
