"""The libraries of images and of the plugin's archives are installed without a compiler, on each machine.

Each has a wheel for the machine, or a wheel without machine code, or is Python alone.
"""

import tomllib
from typing import Any, Final

import pytest

from project_tools.release.plugin_archives import NOT_IMPORTED, OF_OTHERS, PLATFORMS, PYTHONS
from testkit.tree.files import ROOT

Json = dict[str, Any]
MEMBERS: Final = (
    "rocketmq-controller-core",
    "rocketmq-ha-operator",
    "rocketmq-ha-sidecar",
    "rocketmq-slo-pipeline",
)
"""What the Dockerfile installs, one for each image."""
PLUGIN: Final = "rocketmq-ha-operator"
SYSTEMS: Final = {"linux": "manylinux", "darwin": "macosx"}
MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}
PYTHON_ALONE: Final = frozenset({"pyspark"})
"""Libraries without any wheel, whose sources have no machine code: JVM archives and Python."""
LOCK: Final = tomllib.loads((ROOT / "uv.lock").read_text())
PACKAGES: Final[dict[str, Json]] = {one["name"]: one for one in LOCK["package"]}


def _installed(member: str) -> set[str]:
    """Return the libraries that an image of a member has, with those of its extras."""
    found, left = set[tuple[str, str]](), [(member, "")]
    while left:
        name, extra = left.pop()
        if (name, extra) in found:
            continue
        found.add((name, extra))
        package = PACKAGES[name]
        needed = package.get("optional-dependencies", {}).get(extra, []) if extra else []
        for one in (*package.get("dependencies", []), *needed):
            left += [(one["name"], wanted) for wanted in ("", *one.get("extra", []))]
    return {name for name, _ in found if "registry" in PACKAGES[name]["source"]}


def _fits(wheel: str, machine: str, system: str = "manylinux", version: str = "3.11") -> bool:
    python, abi, platform = wheel.removesuffix(".whl").split("-")[-3:]
    if platform == "any":
        return True
    is_ours = system in platform and platform.endswith((f"_{machine}", "_universal2"))
    minor = int(version.partition(".")[2])
    stable = abi == "abi3" and int(python.removeprefix("cp3")) <= minor
    return is_ours and (f"cp3{minor}" in python.split(".") or stable or python == "py3")


def _wheels(name: str) -> list[str]:
    return [one["url"].rpartition("/")[2] for one in PACKAGES[name].get("wheels", [])]


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
@pytest.mark.parametrize("member", MEMBERS)
def test_every_library_of_an_image_has_a_wheel_for_its_machine(member: str, machine: str) -> None:
    installed = _installed(member)
    assert len(installed) > 10
    without = {name for name in installed if not any(_fits(wheel, machine) for wheel in _wheels(name))}
    assert without - PYTHON_ALONE == set()
    assert [name for name in without if _wheels(name)] == []


def test_the_dockerfile_installs_these_members() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert {member for member in PACKAGES if f"--package {member}\n" in text} == set(MEMBERS)


@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize(("system", "machine"), PLATFORMS)
def test_every_library_of_the_plugin_has_a_wheel_for_its_platform(
    system: str, machine: str, version: str
) -> None:
    named = machine if (system, machine) == ("darwin", "arm64") else MACHINES[machine]
    installed = _installed(PLUGIN) - NOT_IMPORTED - OF_OTHERS
    assert len(installed) > 5
    fitting = {
        name
        for name in installed
        if any(_fits(wheel, named, SYSTEMS[system], version) for wheel in _wheels(name))
    }
    assert installed - fitting == set()
