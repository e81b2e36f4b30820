"""A cluster with users: the Secret, the pods that sign with it, and what the status says."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from controller_core.access.signing import Credentials
from ha_sidecar.replica import config as replica_config
from ha_sidecar.seed import config as seed_config
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.plan.cluster.observed import ClusterSecrets
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.credentials.inner_users import InnerUsers
from rocketmq_operator.plan.group.scripts.start_scripts import broker_start
from testkit.worlds.operator import OperatorWorld

USERS = {"authentication": {"type": "Signature"}, "authorization": {"type": "Simple"}}
SPEC = BrokerGroupSpec.model_validate({"cluster": "main", "storage": {"size": "1Gi"}})
SECRET = "main-broker-credentials"  # noqa: S105 - a name
_OTHER = {"username": b"inner-2", "password": b"second"}


async def _world(cluster: dict[str, Any] | None = None) -> OperatorWorld:
    world = OperatorWorld({"logReplicas": 1}, USERS if cluster is None else cluster)
    await world.settle()
    return world


def _password(world: OperatorWorld) -> str:
    return base64.b64decode(world.get("Secret", SECRET)["data"]["password"]).decode()


async def test_one_password_is_made_and_kept_also_while_users_are_off() -> None:
    world = await _world()
    secret, password = world.get("Secret", SECRET), _password(world)
    assert (secret["type"], base64.b64decode(secret["data"]["username"])) == (
        "kubernetes.io/basic-auth",
        names.INNER_USER.encode(),
    )
    assert len(password) > 5
    world.advance(60)
    await world.settle()
    world.write_cluster({})
    await world.settle()
    world.write_cluster(USERS)
    await world.settle()
    assert _password(world) == password


async def test_another_super_user_that_a_person_puts_into_the_secret_is_kept() -> None:
    world = await _world()
    templates = [world.get("StatefulSet", name)["spec"]["template"] for name in ("orders", "main-controller")]
    given = {key: base64.b64encode(value).decode() for key, value in _OTHER.items()}
    world.get("Secret", SECRET)["data"] = given
    await world.settle()
    world.advance(60)
    await world.settle()
    assert world.get("Secret", SECRET)["data"] == given
    after = [world.get("StatefulSet", name)["spec"]["template"] for name in ("orders", "main-controller")]
    assert after == templates, "a person restarts the brokers when all sign with it"


async def test_members_and_controllers_have_the_secret_and_no_other_object_has_its_text() -> None:
    world = await _world()
    for name in ("orders", "orders-log", "main-controller"):
        pod = world.get("StatefulSet", name)["spec"]["template"]["spec"]
        volume = {"name": "credentials", "secret": {"secretName": SECRET, "defaultMode": 0o440}}
        assert volume in pod["volumes"]
        for container in (*pod["containers"], *pod.get("initContainers", ())):
            mount = {"name": "credentials", "mountPath": names.CREDENTIALS_PATH, "readOnly": True}
            assert mount in container["volumeMounts"], container["name"]
    name_servers = world.get("StatefulSet", "main-nameserver")["spec"]["template"]["spec"]
    assert "credentials" not in str(name_servers)
    password = _password(world)
    encoded = base64.b64encode(password.encode()).decode()
    texts = [json.dumps(item) for item in world.kube.objects.values() if item["metadata"]["name"] != SECRET]
    assert [text for text in texts if password in text or encoded in text] == []
    assert password not in repr(
        ClusterSecrets("t", InnerUsers(Credentials("u", password), Credentials("v", password)))
    )


async def test_settings_files_say_where_the_credentials_are(tmp_path: Path) -> None:
    world = await _world()
    files = world.get("ConfigMap", "orders")["data"]
    broker = dict(line.split("=", 1) for line in files["broker.conf"].splitlines())
    assert (broker["authenticationEnabled"], broker["authorizationEnabled"]) == ("true", "true")
    assert broker["authenticationMetadataProvider"].endswith(".LocalAuthenticationMetadataProvider")
    assert broker["authorizationMetadataProvider"].endswith(".LocalAuthorizationMetadataProvider")
    for name in ("companion.conf", "seed.conf", "replica.conf"):
        assert f"credentials = {names.CREDENTIALS_PATH}\n" in files[name]
    assert "keep-users = true\n" in files["companion.conf"]
    controller = world.get("ConfigMap", "main-controller")["data"]["controller.conf"]
    assert f"credentialsPath={names.CREDENTIALS_PATH}\n" in controller
    keys = {"cluster": "c", "group": "g", "store": str(tmp_path), "controllers": "h:1", "listen": "h:2"}
    keys |= {"http": "h:3", "credentials": str(tmp_path)}
    assert replica_config.from_texts(keys).credentials is not None
    assert seed_config.from_texts({key: keys[key] for key in (*list(keys)[:4], "credentials")}).credentials


async def test_rights_may_stay_off() -> None:
    world = await _world({"authentication": {"type": "Signature"}})
    assert "authorizationEnabled=false\n" in world.get("ConfigMap", "orders")["data"]["broker.conf"]


async def test_without_users_nothing_of_it_is_there() -> None:
    world = await _world({})
    assert "credentials" not in json.dumps(list(world.kube.objects.values()))
    assert "UsersInSync" not in json.dumps(world.status())


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, ("Unknown", "NotCompared")),
        ({"orders-1": True}, ("True", "AllKnown")),
        ({"orders-0": None, "orders-1": False}, ("False", "SlaveLacksUsers")),
        ({"orders-1": "yes"}, ("Unknown", "NotCompared")),
    ],
)
async def test_the_status_says_whether_slaves_have_the_users(
    told: dict[str, Any], expected: tuple[str, str]
) -> None:
    world = await _world()
    for broker, holds in told.items():
        host = f"{world.get('Pod', broker)['status']['podIP']}:{names.COMPANION_HTTP_PORT}"
        world.companions.told[host] = {"metadata_missing": None, "users_in_sync": holds}
    world.advance(60)
    await world.one_pass()
    assert world.condition("UsersInSync") == expected


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"authorization": {"type": "Simple"}}, "RightsWithoutUsers"),
        (USERS | {"version": "5.2.0"}, "VersionWithoutUsers"),
    ],
)
def test_what_cannot_work_together_is_refused(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        RocketMQClusterSpec.model_validate(spec)
    assert RocketMQClusterSpec.model_validate(USERS | {"version": "5.10.0"}).has_users


def test_the_start_script_adds_the_credentials_to_a_file_that_others_cannot_read(tmp_path: Path) -> None:
    own = tmp_path / "own.conf"
    script = broker_start(SPEC, has_users=True).partition("config=")[2].partition("# With a proxy")[0]
    script = f"set -eu\naddress=a\nPOD_IP=b\nconfig={own}\n" + script.partition("\n")[2].replace(
        f"{names.CONFIG_PATH}/", f"{tmp_path}/"
    ).replace(f"{names.CREDENTIALS_PATH}/", f"{tmp_path}/")
    for name, text in (("broker.conf", "a=b\n"), ("username", "rocketmq-ha"), ("password", "x_-1")):
        (tmp_path / name).write_text(text)
    for _ in range(2):  # the container may start again with the same file
        subprocess.run(["/bin/sh", "-c", script], check=True)
    last = own.read_text().splitlines()[-1]
    assert last == 'innerClientAuthenticationCredentials={"accessKey":"rocketmq-ha","secretKey":"x_-1"}'
    assert own.stat().st_mode & 0o777 == 0o600
