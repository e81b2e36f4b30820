"""The JVM of a component that RocketMQ's own program runs: brokers, name servers, proxies in own pods."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from rocketmq_operator.api.base import KEPT_WHOLE, Rule, SpecModel

SHARE_OR_SIZE: Final = "^([1-9][0-9]?%|[1-9][0-9]*(Mi|Gi))$"
OPTION: Final = "^-[A-Za-z0-9_.,:=+/@%-]+$"
"""One word: the start scripts of RocketMQ's images split options at white space and expand patterns."""
OPTIONS_MAX: Final = 32
OWNED_OPTIONS: Final = (
    "-Dcom.rocketmq.remoting.client.connect.timeout",
    "-Duser.home",
    "-XX:InitialHeapSize",
    "-XX:MaxDirectMemorySize",
    "-XX:MaxHeapSize",
    "-Xms",
    "-Xmx",
)
"""Beginnings of options that the operator or a field sets."""
ShareOrSize = Annotated[str, Field(max_length=16, pattern=SHARE_OR_SIZE)]


class GarbageCollector(StrEnum):
    """A garbage collector that each Java version of RocketMQ's images has."""

    G1 = "G1"
    PARALLEL = "Parallel"
    SERIAL = "Serial"


def _owned(jvm: "Jvm") -> list[str]:
    return [one for one in jvm.options or () if one.startswith(OWNED_OPTIONS)]


_IS_OWNED: Final = " || ".join(f"one.startsWith('{prefix}')" for prefix in OWNED_OPTIONS)


class Jvm(SpecModel):
    """Options of a JVM; each field is absent unless a person gives it."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            name="OwnedOption",
            expression=f"!has(self.options) || !self.options.exists(one, {_IS_OWNED})",
            message="'jvm.options has %s: use heap or directMemory, or leave it to the operator'.format("
            f"[self.options.filter(one, {_IS_OWNED})[0]])",
            holds=lambda jvm: not _owned(jvm),
            problem=lambda jvm: (
                f"jvm.options has {_owned(jvm)[0]}: use heap or directMemory, or leave it to the operator"
            ),
            reason="FieldValueForbidden",
        ),
    )

    heap: ShareOrSize | None = None
    """Size of the heap, for instance 3Gi, or its share of the memory, for instance 40%. 50% when absent."""
    direct_memory: ShareOrSize | None = None
    """Size of direct buffers, or their share of the memory. 25% when absent."""
    collector: GarbageCollector | None = None
    """Garbage collector; that of RocketMQ's start scripts when absent."""
    options: (
        Annotated[
            tuple[Annotated[str, Field(max_length=256, pattern=OPTION)], ...],
            Field(max_length=OPTIONS_MAX, json_schema_extra=KEPT_WHOLE),
        ]
        | None
    ) = None
    """Further options, one word each. They come after those of RocketMQ's start scripts and win over them."""
