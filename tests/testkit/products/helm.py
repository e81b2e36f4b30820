"""The chart as helm renders it, without a cluster: settings in, objects out."""

import asyncio
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from project_tools.chart_files import CHART
from testkit.kube.kubectl import program, run

Json = dict[str, Any]
RELEASE: Final = "demo"
NAMESPACE: Final = "mq"
_POD_MAKERS: Final = ("Deployment", "DaemonSet", "Job")


@cache
def rendered(*settings: str, chart: Path = CHART) -> list[Json]:
    """Return the objects of a release, to be read only; each setting is `path=JSON`.

    Raises:
        KubeError: helm refused, in its words.
    """
    arguments = [word for setting in settings for word in ("--set-json", setting)]
    command = [
        str(program("helm")),
        "template",
        RELEASE,
        str(chart),
        f"--namespace={NAMESPACE}",
        "--kube-version=1.34.0",
        *arguments,
    ]
    printed = asyncio.run(run(command)).decode()
    return [value for value in yaml.safe_load_all(printed) if value]


def of(objects: list[Json], kind: str) -> list[Json]:
    """Return the objects of a kind."""
    return [value for value in objects if value["kind"] == kind]


def named(objects: list[Json], kind: str, name: str) -> Json:
    """Return the one object of a kind with a name."""
    (found,) = [value for value in of(objects, kind) if value["metadata"]["name"] == name]
    return found


def pods(objects: list[Json]) -> dict[str, Json]:
    """Return each pod, or what it is made of (metadata and spec), by its component."""
    found = of(objects, "Pod")
    found += [value["spec"]["template"] for kind in _POD_MAKERS for value in of(objects, kind)]
    found += [value["spec"]["jobTemplate"]["spec"]["template"] for value in of(objects, "CronJob")]
    by_component = {pod["metadata"]["labels"]["app.kubernetes.io/component"]: pod for pod in found}
    if len(by_component) != len(found):
        raise AssertionError("two pods of one component")
    return by_component
