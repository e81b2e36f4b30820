"""Properties files of the operator: Java and the sidecar read each key and value as meant.

An owned key always has the operator's value.
"""

import re
from collections.abc import Collection
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ha_sidecar.common.options import read_file
from ha_sidecar.companion import config as companion_config
from ha_sidecar.replica import config as replica_config
from ha_sidecar.seed import config as seed_config
from ha_sidecar.setting_options import setting_keys
from rocketmq_operator.api.broker_group import OWNED_KEYS, BrokerGroupSpec, Durability
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import CLUSTER_NAME_PATTERN, NAME_LENGTH_MAX
from rocketmq_operator.api.names import API_VERSION
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.common.properties import plain_settings, properties
from rocketmq_operator.plan.group.children import broker_conf, replica_conf
from rocketmq_operator.plan.group.companion import companion_conf
from rocketmq_operator.plan.group.seed_container import seed_conf

OWNER: Final = Owner(API_VERSION, "BrokerGroup", "orders", "shop", "uid")
BASE: Final[dict[str, Any]] = {"cluster": "main", "storage": {"size": "1Gi"}}
TEXTS: Final = st.text(
    st.one_of(st.sampled_from(" \t\n\r\f=:#!\\u0041ä€\U0001f600"), st.characters(exclude_categories=["Cs"]))
)
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)


def read_as_java(data: bytes) -> dict[str, str]:
    """Return what java.util.Properties.load reads: of equal keys the last."""
    found, before = {}, ""
    for line in re.split(r"\r\n|\r|\n", data.decode("latin-1")):
        text = line.lstrip(" \t\f")
        if not before and (not text or text[0] in "#!"):
            continue
        before += text
        if (len(before) - len(before.rstrip("\\"))) % 2:
            before = before[:-1]
            continue
        entry = _ENTRY.fullmatch(before)
        assert entry is not None
        found[_unescaped(entry[1])] = _unescaped(entry[2])
        before = ""
    return found


def _unescaped(text: str) -> str:
    units = _ESCAPE.sub(lambda one: chr(int(one[1], 16)) if one[1] else _ESCAPES.get(one[2], one[2]), text)
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def test_the_reader_of_these_tests_reads_as_java_does() -> None:
    text = "# no\n! no\n a\\u0062 : c\\\n  d\ne\\=f g\nh\na=1\ra==2"
    assert read_as_java(text.encode()) == {"ab": "cd", "e=f": "g", "h": "", "a": "=2"}


@given(st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_every_text_is_read_as_the_key_or_value_that_was_written(values: dict[str, str]) -> None:
    assert read_as_java(properties(values).encode("ascii")) == values


@given(TEXTS)
def test_a_plain_value_is_read_by_the_sidecar_as_written_or_refused_when_written(value: str) -> None:
    try:
        text = plain_settings({"group": value, "cluster": "c"})
    except ValueError:
        assert value != value.strip() or set(value) & set("\r\n")
        return
    assert _read_by_sidecar(text, setting_keys(companion_config.CompanionConfig)) == {
        "group": value,
        "cluster": "c",
    }


@settings(max_examples=30)
@given(
    group=st.from_regex(CLUSTER_NAME_PATTERN, fullmatch=True).map(lambda name: name[:NAME_LENGTH_MAX]),
    cluster=st.from_regex(CLUSTER_NAME_PATTERN, fullmatch=True).map(lambda name: name[:NAME_LENGTH_MAX]),
    namespace=st.from_regex("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True),
    durability=st.sampled_from(list(Durability)),
    mebibytes=st.integers(1, 1_024),
    interval_ms=st.integers(100, 10_000),
)
def test_what_the_crd_admits_is_read_by_companion_replica_and_seed_as_it_was_meant(
    group: str, cluster: str, namespace: str, durability: Durability, mebibytes: int, interval_ms: int
) -> None:
    given_ = {
        "cluster": cluster,
        "durability": durability,
        "logFileMebibytes": mebibytes,
        "failover": {"heartbeatIntervalMs": interval_ms, "heartbeatTimeoutMs": min(60_000, 4 * interval_ms)},
    }
    try:
        spec = BrokerGroupSpec.model_validate(BASE | given_)
    except ValidationError:
        return
    owner = Owner(API_VERSION, "BrokerGroup", group, namespace, "uid")
    companion = companion_config.from_texts(
        _read_by_sidecar(
            companion_conf(owner, spec, RocketMQClusterSpec()), setting_keys(companion_config.CompanionConfig)
        ),
        serves=True,
    )
    replica = replica_config.from_texts(
        _read_by_sidecar(
            replica_conf(owner, spec, RocketMQClusterSpec()), setting_keys(replica_config.ReplicaConfig)
        )
    )
    seed_texts = _read_by_sidecar(
        seed_conf(owner, spec, RocketMQClusterSpec()), setting_keys(seed_config.SeedConfig)
    )
    seed = seed_config.from_texts(seed_texts | {"advertise": "10.0.0.1:10911"})
    assert {(one.cluster, one.group) for one in (companion, replica, seed)} == {(cluster, group)}
    assert (companion.namespace, replica.namespace) == (namespace, namespace)
    hosts = list(names.controller_hosts(cluster, namespace))
    assert all([host for host, _ in one.controllers] == hosts for one in (companion, replica, seed))
    assert replica.mapped_file_bytes == seed.mapped_file_bytes == mebibytes << 20
    assert replica.heartbeat_interval_ms == interval_ms
    assert seed.min_in_sync == (1 if durability is Durability.ASYNC else 2)
    assert seed.reclaim == (durability is Durability.ALL_IN_SYNC)


def _read_by_sidecar(text: str, keys: Collection[str]) -> dict[str, str]:
    with NamedTemporaryFile() as file:
        path = Path(file.name)
        path.write_bytes(text.encode())
        return read_file(path, keys)


@cache
def _plain() -> dict[str, str]:
    """Return broker.conf of a spec without `config`."""
    return _conf(BrokerGroupSpec.model_validate(BASE))


def _conf(spec: BrokerGroupSpec) -> dict[str, str]:
    return read_as_java(broker_conf(OWNER, spec, RocketMQClusterSpec()).encode("ascii"))


def _disguised(key: str) -> st.SearchStrategy[str]:
    """Return texts that may be another spelling of a key."""
    return st.sampled_from(
        [
            f" {key}",
            f"{key} ",
            f"{key}:",
            f"{key}=",
            f"\\{key}",
            f"\\u{ord(key[0]):04x}{key[1:]}",
            f"x\n{key}",
            key,
        ]
    )


@settings(max_examples=50)
@given(
    st.dictionaries(
        st.one_of(
            TEXTS, st.sampled_from(OWNED_KEYS).flatmap(_disguised), st.from_regex("[a-z]{3}", fullmatch=True)
        ),
        st.one_of(TEXTS, st.sampled_from(OWNED_KEYS).map(lambda key: f"x\n{key}=1\\")),
        max_size=3,
    ),
    st.one_of(st.just("main"), TEXTS),
)
def test_no_spec_that_is_accepted_changes_an_owned_key(config: dict[str, str], cluster: str) -> None:
    try:
        spec = BrokerGroupSpec.model_validate(BASE | {"config": config, "cluster": cluster})
    except ValidationError:
        # Whatever got past the model all the same must not change an owned key either.
        spec = BrokerGroupSpec.model_validate(BASE).model_copy(update={"config": config})
    plain = _plain()
    found = _conf(spec)
    owned = plain.keys() & set(OWNED_KEYS)
    assert {key: found[key] for key in owned} == {key: plain[key] for key in owned}
    assert found == plain | {key: value for key, value in config.items() if key not in owned}


def test_what_the_operator_owns_comes_last() -> None:
    spec = BrokerGroupSpec.model_validate(BASE | {"config": {"zzz": "1", "aaa": "2"}})
    keys = list(_conf(spec))
    is_owned = [key in OWNED_KEYS for key in keys]
    assert all(before <= after for before, after in pairwise(is_owned))
    assert {"zzz", "aaa"} <= set(keys[: is_owned.index(True)])
