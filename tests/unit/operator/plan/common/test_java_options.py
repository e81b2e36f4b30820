"""The options of JVMs: memory by size or by share, a collector, and further options that come last."""

import subprocess
from typing import Any, Final

import pytest

from rocketmq_operator.api.common import Resources
from rocketmq_operator.api.pods.jvm import GarbageCollector, Jvm
from rocketmq_operator.plan.common.java import HUGE_PAGES, java_options
from rocketmq_operator.plan.common.shaping.override import PodRefusedError
from testkit.rocketmq import killed_broker
from testkit.rocketmq.killed_broker import gives_huge_pages
from testkit.worlds.pod_templates import template, workloads

Json = dict[str, Any]
MEMORY: Final = Resources(cpu="1", memory="8Gi")
SCRIPTS: Final = (
    *("-XX:+UseG1GC", "-XX:G1HeapRegionSize=16m", "-XX:SoftRefLRUPolicyMSPerMB=0"),
    *killed_broker.SCRIPTS,
)
"""Of RocketMQ's start scripts, for Java 11 and later. Source: 5.5.0 runbroker.sh, runserver.sh."""


def _options(**jvm: object) -> str:
    return java_options(MEMORY, Jvm.model_validate(jvm))


def test_without_settings_half_of_the_memory_is_the_heap_and_a_quarter_direct() -> None:
    expected = "-Xms4096m -Xmx4096m -XX:MaxDirectMemorySize=2048m -Duser.home=/tmp"
    assert java_options(MEMORY) == _options() == f"{expected} {HUGE_PAGES}"


@pytest.mark.parametrize(
    ("heap", "direct", "sizes"),
    [
        ("3Gi", None, (3072, 2048)),
        ("40%", None, (3276, 2048)),
        (None, "512Mi", (4096, 512)),
        ("60%", "40%", (4915, 3276)),
        ("6Gi", "2Gi", (6144, 2048)),
    ],
)
def test_memory_is_given_by_size_or_by_share(heap: str | None, direct: str | None, sizes: Any) -> None:
    words = _options(heap=heap, directMemory=direct).split()
    assert words[:3] == [f"-Xms{sizes[0]}m", f"-Xmx{sizes[0]}m", f"-XX:MaxDirectMemorySize={sizes[1]}m"]


@pytest.mark.parametrize(("heap", "direct"), [("7Gi", None), ("80%", "30%"), (None, "5Gi"), ("99%", None)])
def test_more_than_the_memory_is_refused_with_the_numbers(heap: str | None, direct: str | None) -> None:
    with pytest.raises(PodRefusedError, match=r"spec\.jvm needs \d+ MiB of heap .* 8192 MiB of resources"):
        _options(heap=heap, directMemory=direct)


def test_further_options_come_after_the_operators_sizes() -> None:
    options = ["-Xmn1g", "-XX:+UseStringDeduplication"]
    assert _options(options=options).endswith(f"{HUGE_PAGES} {' '.join(options)}")


@pytest.mark.parametrize("collector", GarbageCollector)
def test_a_jvm_starts_with_the_collector_although_the_scripts_choose_another(
    collector: GarbageCollector,
) -> None:
    chosen = _flags_of_a_jvm(collector=collector) & {f"Use{one}GC" for one in GarbageCollector}
    assert chosen == {f"Use{collector}GC"}


def test_a_jvm_has_its_heap_in_huge_pages_although_the_scripts_switch_them_off() -> None:
    if not gives_huge_pages():
        pytest.skip("the kernel gives no huge pages on request")
    assert "UseTransparentHugePages" in _flags_of_a_jvm()


def test_a_further_option_switches_huge_pages_off() -> None:
    assert "UseTransparentHugePages" not in _flags_of_a_jvm(options=["-XX:-UseTransparentHugePages"])


def _flags_of_a_jvm(**jvm: object) -> set[str]:
    """Start a JVM as the scripts do with our options after theirs; return its flags that are on."""
    options = _options(heap="64Mi", directMemory="16Mi", **jvm).split()
    told = subprocess.run(
        ["java", *SCRIPTS, *options, "-XX:+PrintFlagsFinal", "-version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout
    return {words[1] for line in told.splitlines() if (words := line.split())[2:4] == ["=", "true"]}


@pytest.mark.parametrize(
    ("name", "cluster", "group"),
    [
        ("broker", None, {"jvm": {"heap": "1Gi"}}),
        ("nameserver", {"nameServers": {"jvm": {"heap": "300Mi"}}}, None),
        ("proxy", {"proxy": {"jvm": {"heap": "300Mi"}}}, None),
    ],
)
def test_each_component_has_its_own_jvm(name: str, cluster: Json | None, group: Json | None) -> None:
    before, after = workloads(), workloads(cluster, group)
    assert {one for one in after if template(after[one]) != template(before[one])} == {name}


@pytest.mark.parametrize(
    ("cluster", "group", "path"),
    [
        (None, {"jvm": {"heap": "90%"}}, "spec.jvm"),
        ({"nameServers": {"jvm": {"heap": "90%"}}}, None, "spec.nameServers.jvm"),
        ({"proxy": {"jvm": {"heap": "90%"}}}, None, "spec.proxy.jvm"),
    ],
)
def test_a_refusal_names_the_component(cluster: Json | None, group: Json | None, path: str) -> None:
    with pytest.raises(PodRefusedError) as refused:
        workloads(cluster, group)
    assert str(refused.value).startswith(f"{path} needs ")


def _words(made: Json) -> list[str]:
    (value,) = [
        one["value"]
        for one in template(made)["spec"]["containers"][0]["env"]
        if one["name"] == "JAVA_OPT_EXT"
    ]
    return str(value).split()


def test_a_connection_timeout_of_the_operator_comes_after_further_options() -> None:
    made = workloads(None, {"jvm": {"options": ["-Dx=y"]}})["broker"]
    assert _words(made)[-2:] == ["-Dx=y", "-Dcom.rocketmq.remoting.client.connect.timeout=500"]


def test_ports_in_plain_tcp_need_no_certificate_unless_a_person_wants_one() -> None:
    wanted = {"jvm": {"options": ["-Dtls.server.mode=permissive"]}}
    made = workloads({"nameServers": wanted}, wanted)
    for name in ("broker", "nameserver"):
        modes = [one for one in _words(made[name]) if "tls.server.mode" in one]
        assert modes == ["-Dtls.server.mode=disabled", "-Dtls.server.mode=permissive"]


@pytest.mark.parametrize(("mode", "plain"), [("Cluster", {"broker"}), ("Local", set())])
def test_grpc_clients_of_a_proxy_may_use_tls_as_they_do_by_default(mode: str, plain: set[str]) -> None:
    made = workloads({"proxy": {"mode": mode}}, None)
    found = {
        one
        for one in ("broker", "proxy")
        if one in made and "-Dtls.server.mode=disabled" in _words(made[one])
    }
    assert found == plain
