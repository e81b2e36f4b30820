"""Settings of name servers: their file, and the restart that a change needs."""

import pytest
from pydantic import ValidationError

from rocketmq_operator.api.clusters.controllers import HARMFUL_NAME_SERVER_KEYS, NameServersSpec
from rocketmq_operator.api.names import CONFIG_HASH_ANNOTATION
from testkit.worlds.operator import OperatorWorld


def _hash(world: OperatorWorld) -> str:
    template = world.get("StatefulSet", "main-nameserver")["spec"]["template"]
    found: str = template["metadata"]["annotations"][CONFIG_HASH_ANNOTATION]
    return found


async def test_settings_stand_before_those_of_the_operator_and_restart_the_name_servers() -> None:
    world = OperatorWorld()
    await world.settle()
    before = _hash(world)
    config = {"scanNotActiveBrokerInterval": "3000", "clientRequestThreadPoolNums": "16"}
    world.write_cluster({"nameServers": {"config": config}})
    await world.settle()
    assert world.get("ConfigMap", "main-nameserver")["data"]["namesrv.conf"] == (
        "clientRequestThreadPoolNums=16\nscanNotActiveBrokerInterval=3000\nlistenPort=9876\n"
    )
    assert _hash(world) != before
    world.write_cluster({})
    await world.settle()
    assert (_hash(world), world.get("ConfigMap", "main-nameserver")["data"]["namesrv.conf"]) == (
        before,
        "listenPort=9876\n",
    )


@pytest.mark.parametrize(("key", "why"), HARMFUL_NAME_SERVER_KEYS.items())
def test_a_harmful_key_is_refused_with_the_reason(key: str, why: str) -> None:
    with pytest.raises(ValidationError, match=f"HarmfulKey: nameServers.config.{key} {why}: remove it"):
        NameServersSpec.model_validate({"config": {key: "x"}})
