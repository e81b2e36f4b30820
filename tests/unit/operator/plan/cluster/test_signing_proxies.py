"""Proxies of a cluster with users: what they are configured with, and where the password stands."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.plan.cluster.proxies import proxy_deployment, proxy_start
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.common.proxy_config import CONF_FILE, proxy_conf

OWNER = Owner("rocketmq-ha.dev/v1alpha1", "RocketMQCluster", "main", "shop", "uid-1")
USERS: dict[str, Any] = {"proxy": {"mode": "Cluster"}, "authentication": {"type": "Signature"}}


def _spec(**change: object) -> RocketMQClusterSpec:
    return RocketMQClusterSpec.model_validate(USERS | change)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_start_script_adds_the_credentials_and_others_cannot_read_them(
    shell: str, tmp_path: Path
) -> None:
    spec = _spec()
    (tmp_path / CONF_FILE).write_text(proxy_conf("main", "shop", spec))
    (tmp_path / names.USERNAME_KEY).write_text("rocketmq-ha")
    (tmp_path / names.PASSWORD_KEY).write_text("p%s-_")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    script = proxy_start(spec).partition("program=")[0]
    for there, here in ((names.CREDENTIALS_PATH, tmp_path), (names.CONFIG_PATH, tmp_path)):
        script = script.replace(f"{there}/", f"{here}/")
    script = script.replace(f"config={names.SCRATCH_PATH}/", f"config={scratch}/")
    subprocess.run([shell, "-c", script], check=True)
    written = json.loads((scratch / CONF_FILE).read_text())
    credentials = json.loads(written.pop("innerClientAuthenticationCredentials"))
    assert credentials == {"accessKey": "rocketmq-ha", "secretKey": "p%s-_"}
    assert written == json.loads(proxy_conf("main", "shop", spec))
    assert (scratch / CONF_FILE).stat().st_mode & 0o077 == 0


def test_proxies_check_users_and_rights_and_sign_to_brokers() -> None:
    found = json.loads(proxy_conf("main", "shop", _spec(authorization={"type": "Simple"})))
    assert (found["authenticationEnabled"], found["authorizationEnabled"]) == ("true", "true")
    assert found["enableAclRpcHookForClusterMode"] == "true"
    assert found["authenticationMetadataProvider"].endswith(".ProxyAuthenticationMetadataProvider")
    assert json.loads(proxy_conf("main", "shop", _spec()))["authorizationEnabled"] == "false"
    pod = proxy_deployment(OWNER, _spec(), {})["spec"]["template"]["spec"]
    mount = {"name": "credentials", "mountPath": names.CREDENTIALS_PATH, "readOnly": True}
    assert mount in pod["containers"][0]["volumeMounts"]


def test_without_users_nothing_of_a_proxy_changes() -> None:
    spec = RocketMQClusterSpec.model_validate({"proxy": {"mode": "Cluster"}})
    assert "auth" not in proxy_conf("main", "shop", spec).lower()
    assert "credentials" not in proxy_start(spec) + json.dumps(proxy_deployment(OWNER, spec, {}))
