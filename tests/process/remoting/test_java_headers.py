"""Our header declarations against the fields of RocketMQ's classes of the same name, for three releases."""

import subprocess
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import testkit
from controller_core.remoting import client_headers, headers
from controller_core.remoting.header import Header, JavaInt, JavaLong
from testkit.rocketmq.jars import jars

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

PROGRAM = Path(testkit.__file__).parent / "java" / "HeaderFields.java"
JAVA_TIMEOUT_S = 60.0
OUR_OWN_FIELDS = {"replicaKind", "leaseMs", "masterHaTls", "partWaitMs"}
OUR_OWN_FIELDS_OF = {("GetReplicaInfoRequestHeader", "clusterName")}
OUR_OWN_HEADERS = {"SyncStateDataRequestHeader"}
JAVA_NAMES = {
    "GetOffsetRequestHeader": "GetMaxOffsetRequestHeader",
    "GetOffsetResponseHeader": "GetMaxOffsetResponseHeader",
    "WritePermOfBrokerRequestHeader": "WipeWritePermOfBrokerRequestHeader",
}
LATER_FIELDS = {("SendMessageResponseHeader", "recallHandle")}
"""Fields that the oldest release tried here does not have yet."""
JAVA_TYPES: dict[object, set[str]] = {
    str: {"String"},
    bool: {"Boolean", "boolean"},
    JavaInt: {"Integer", "int"},
    JavaLong: {"Long", "long"},
}

ALL_HEADERS = [
    kind
    for module in (headers, client_headers)
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, Header)
    and kind is not Header
    and kind.__name__ not in OUR_OWN_HEADERS
]


def java_fields(folder: Path) -> dict[str, dict[str, str]]:
    """Give, for each of our headers, the fields of Java's class: name to type."""
    names = [JAVA_NAMES.get(kind.__name__, kind.__name__) for kind in ALL_HEADERS]
    finished = subprocess.run(
        ["java", "-Xmx256m", "-cp", f"{folder}/*", str(PROGRAM)],
        input="".join(f"{name}\n" for name in names),
        capture_output=True,
        text=True,
        timeout=JAVA_TIMEOUT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    return {
        kind.__name__: dict(field.split(":") for field in line.split())
        for kind, line in zip(ALL_HEADERS, lines, strict=True)
    }


def our_fields(kind: type[Header]) -> dict[str, set[str]]:
    """Give a header's wire names with the Java types that they may have."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        name: java_types(hints[attribute])
        for attribute, name in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
        if name not in OUR_OWN_FIELDS and (kind.__name__, name) not in OUR_OWN_FIELDS_OF
    }


def java_types(hint: Any) -> set[str]:
    """Translate a declared type, optional or not."""
    for ours, theirs in JAVA_TYPES.items():
        if hint == ours or ours in get_args(hint):
            return theirs
    raise AssertionError(hint)


@pytest.mark.parametrize("version", ["5.2.0", "5.4.0", "5.5.0"])
async def test_every_header_field_is_a_field_of_javas_class_with_its_type(version: str) -> None:
    theirs = java_fields(await jars(version))
    for kind in ALL_HEADERS:
        fields = theirs[kind.__name__]
        for name, types in our_fields(kind).items():
            if version == "5.2.0" and (kind.__name__, name) in LATER_FIELDS:
                continue
            assert fields.get(name) in types, f"{kind.__name__}.{name}"


async def test_controller_headers_leave_no_field_of_javas_out() -> None:
    theirs = java_fields(await jars("5.4.0"))
    for kind in ALL_HEADERS:
        if kind.__module__ == headers.__name__:
            assert theirs[kind.__name__].keys() == our_fields(kind).keys()
