"""The log levels of the chart's programs: a change reaches their file and leaves their pods alone."""

from pathlib import Path
from typing import Any, Final

import pytest

from controller_core.command_line.log_level import FILE_DEFAULT
from testkit.products.helm import NAMESPACE, RELEASE, named, pods, rendered

Json = dict[str, Any]
ALL: Final = (
    "networkPolicies.enabled=false",
    "measure.enabled=true",
    "nodeAgent.enabled=true",
    'nodeAgent.namespace="agents"',
)
GROUP: Final = 'measure.groups=[{"name":"orders"}]'
PROGRAMS: Final = {
    "operator": ("operator", NAMESPACE, ("operator",)),
    "measure": ("measure", NAMESPACE, ("collector", "canary-orders")),
    "nodeAgent": ("node-agent", "agents", ("node-agent",)),
}


@pytest.mark.parametrize("values", sorted(PROGRAMS))
def test_a_level_changes_one_config_map_and_no_pod(values: str) -> None:
    component, namespace, containers = PROGRAMS[values]
    before, after = rendered(*ALL, GROUP), rendered(*ALL, GROUP, f'{values}.logLevel="debug"')
    name = f"{RELEASE}-{component}-log-level"
    given = named(after, "ConfigMap", name)
    assert given["data"] == {Path(FILE_DEFAULT).name: "debug"}
    assert given["metadata"].get("namespace", NAMESPACE) == namespace
    assert named(before, "ConfigMap", name)["data"] == {Path(FILE_DEFAULT).name: "info"}
    assert [one for one in before if one["metadata"]["name"] != name] == [
        one for one in after if one["metadata"]["name"] != name
    ]
    pod = pods(after)[component]["spec"]
    (volume,) = [one for one in pod["volumes"] if one.get("configMap", {}).get("name") == name]
    mounted = {
        container["name"]
        for container in pod["containers"]
        for mount in container["volumeMounts"]
        if mount["name"] == volume["name"] and mount["mountPath"] == str(Path(FILE_DEFAULT).parent)
    }
    assert mounted >= set(containers)
