"""The addresses that Kubernetes gives Services and pods, of one family of IP or of two.

Source: Kubernetes 1.34 pkg/registry/core/service/storage/alloc.go (initIPFamilyFields).
"""

from collections.abc import Sequence
from typing import Any, Final

Json = dict[str, Any]
V4: Final = "IPv4"
V6: Final = "IPv6"
V4_ONLY: Final = (V4,)


def give_addresses(service: Json, families: Sequence[str], place: tuple[int, int]) -> None:
    """Give a Service the addresses of its families; its first one stays.

    In a cluster of IPv4 alone the families of a Service are left out, unless it asks for a policy.
    """
    spec = service["spec"]
    given = _families(spec, families)
    if tuple(families) != V4_ONLY or "ipFamilyPolicy" in spec:
        spec["ipFamilies"] = given
        spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("clusterIP") == "None":
        return
    addresses = [_address(family, *place) for family in given]
    spec.setdefault("clusterIP", addresses[0])
    if "ipFamilies" in spec:
        spec["clusterIPs"] = [spec["clusterIP"], *addresses[1:]]


def _families(spec: Json, families: Sequence[str]) -> list[str]:
    asked = spec.get("ipFamilies") or list(families)
    if spec.get("ipFamilyPolicy", "SingleStack") == "SingleStack":
        return list(asked[:1])
    return [*asked, *(one for one in families if one not in asked)]


def _address(family: str, high: int, low: int) -> str:
    return f"10.96.{high}.{low}" if family == V4 else f"fd00:96::{high:x}:{low:x}"


def pod_addresses(families: Sequence[str], high: int, low: int) -> Json:
    """Return the addresses in a pod's status."""
    found = [f"10.244.{high}.{low}" if family == V4 else f"fd00:244::{high:x}:{low:x}" for family in families]
    more = {} if len(found) == 1 else {"podIPs": [{"ip": one} for one in found]}
    return {"podIP": found[0]} | more
