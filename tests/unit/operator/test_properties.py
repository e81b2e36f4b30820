"""Properties files of the operator: Java reads each key and value as meant.

An owned key always has the operator's value.
"""

import re
from functools import cache
from itertools import pairwise
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from rocketmq_operator.api.broker_group import OWNED_KEYS, BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.names import API_VERSION
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.common.properties import properties
from rocketmq_operator.plan.group.children import broker_conf

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


@given(st.dictionaries(TEXTS, TEXTS, max_size=4), st.sampled_from(["=", " = "]))
def test_java_reads_every_text_as_it_was_written(values: dict[str, str], separator: str) -> None:
    assert read_as_java(properties(values, separator).encode("ascii")) == values


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
