"""A cluster whose name servers somebody else runs: none are made, and everything uses the given ones."""

import json

from testkit.worlds.operator import OperatorWorld

GIVEN = ["10.0.0.7:9876", "ns.example:9877"]
JOINED = ";".join(GIVEN)


def _names(world: OperatorWorld) -> set[tuple[str, str]]:
    return {(kind, name) for kind, _, name in world.kube.objects if "nameserver" in name}


async def test_no_name_server_is_made_and_all_members_use_the_given_ones() -> None:
    world = OperatorWorld(cluster={"nameServers": {"external": GIVEN}}, group={"replicas": 2})
    await world.settle()
    assert _names(world) == set()
    data = world.get("ConfigMap", "orders")["data"]
    assert f"namesrvAddr={JOINED}\n" in data["broker.conf"]
    assert JOINED in data["companion.conf"]
    hosts = world.get("StatefulSet", "orders")["spec"]["template"]["spec"]["hostAliases"]
    assert {host.partition(".")[0].rpartition("-")[0] for one in hosts for host in one["hostnames"]} == {
        "main-controller"
    }
    assert world.condition("Ready") == ("True", "Serving")


async def test_the_status_counts_them_and_does_not_judge_them() -> None:
    world = OperatorWorld(cluster={"nameServers": {"external": GIVEN}})
    await world.settle()
    status = world.status("RocketMQCluster", "main")
    assert status["nameServers"] == "2 external"
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    assert ready["message"] == ("3 controllers are ready; 2 name servers are external and not looked at")
    assert status["listeners"][0]["address"] == JOINED


async def test_proxies_route_fronts_and_applications_are_given_them() -> None:
    listener = {"name": "outside", "type": "NodePort", "advertisedHost": "mq.example"}
    spec = {"nameServers": {"external": GIVEN}, "proxy": {"mode": "Cluster"}, "listeners": [listener]}
    world = OperatorWorld(cluster=spec)
    await world.settle()
    await world.settle()  # proxies come after brokers
    proxy = json.loads(world.get("ConfigMap", "main-proxy")["data"]["rmq-proxy.json"])
    assert proxy["namesrvAddr"] == JOINED
    front = world.get("Deployment", "main-front-outside")["spec"]["template"]["spec"]
    assert JOINED in front["containers"][0]["command"]
    assert "hostAliases" not in front or front["hostAliases"] == []
    assert world.get("ConfigMap", "main-bootstrap")["data"]["namesrvAddr"] == JOINED


async def test_another_address_restarts_the_brokers_and_not_the_controllers() -> None:
    world = OperatorWorld(cluster={"nameServers": {"external": GIVEN}})
    await world.settle()

    def digests() -> list[str]:
        sets = (world.get("StatefulSet", name) for name in ("orders", "main-controller"))
        return [json.dumps(one["spec"]["template"], sort_keys=True) for one in sets]

    before = digests()
    world.write_cluster({"nameServers": {"external": GIVEN[:1]}})
    await world.settle()
    after = digests()
    assert before[0] != after[0]
    assert before[1] == after[1]
