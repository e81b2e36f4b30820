"""The families of IP addresses of a cluster's Services, in Kubernetes' own words.

The first family of a Service never changes. Brokers announce the address of that family, and the members of a
cluster reach each other at it. Addresses of the second family lead to the same pods.

Source: Kubernetes "IPv4/IPv6 dual-stack", ServiceSpec; docs/adr/033-addresses-of-ipv6.md.
"""

import re
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from rocketmq_operator.api.base import KEPT_WHOLE
from rocketmq_operator.api.rules import Rule

FAMILIES_MAX: Final = 2
WITHOUT_V6_PATTERN: Final = "^5[.]1[.]"
"""Versions of RocketMQ whose clients, those in brokers too, split addresses at every colon."""
WITH_V6: Final = "5.2.0"


class IpFamily(StrEnum):
    """A family of IP addresses."""

    V4 = "IPv4"
    """Addresses as 10.96.0.1."""
    V6 = "IPv6"
    """Addresses as fd00::1."""


class IpFamilyPolicy(StrEnum):
    """How many families the Services have."""

    SINGLE_STACK = "SingleStack"
    """One family."""
    PREFER_DUAL_STACK = "PreferDualStack"
    """Both where Kubernetes has both, one otherwise."""
    REQUIRE_DUAL_STACK = "RequireDualStack"
    """Both; Kubernetes refuses the Services where it has one."""


IpFamilies = Annotated[tuple[IpFamily, ...], Field(max_length=FAMILIES_MAX, json_schema_extra=KEPT_WHOLE)]
_COUNTS: Final = {
    IpFamilyPolicy.SINGLE_STACK: (0, 1),
    IpFamilyPolicy.PREFER_DUAL_STACK: (0,),
    IpFamilyPolicy.REQUIRE_DUAL_STACK: (0, 2),
}
_EXPECTED: Final = "one with SingleStack, none with PreferDualStack, both with RequireDualStack, or none"
_WHY_NOT_V6: Final = f"its clients cannot connect to IPv6, so take {WITH_V6} or newer, or begin with IPv4"
_COUNT_IN_CEL: Final = "(has(self.ipFamilies) ? self.ipFamilies.size() : 0)"
_POLICY_IN_CEL: Final = "(has(self.ipFamilyPolicy) ? self.ipFamilyPolicy : 'none')"
_FIRST_IS_V6: Final = "has(self.ipFamilies) && self.ipFamilies.size() > 0 && self.ipFamilies[0] == 'IPv6'"


def _fits(spec: Any) -> bool:  # noqa: ANN401 - the spec's module imports this one
    families, policy = spec.ip_families, spec.ip_family_policy
    if policy is None:
        return not families
    return len(families) in _COUNTS[policy] and len(set(families)) == len(families)


def fails_at_v6(version: str) -> bool:
    """Say whether clients of a version cannot connect to addresses of IPv6."""
    return re.match(WITHOUT_V6_PATTERN, version) is not None


def why_not_v6(version: str) -> str:
    """Say that brokers of a version cannot announce addresses of IPv6, and what to do."""
    return f"the addresses of Services are of IPv6 with version {version}: {_WHY_NOT_V6}"


IP_FAMILY_RULES: Final = (
    Rule(
        name="FamiliesOfPolicy",
        expression=f"{_COUNT_IN_CEL} == 0 || ({_POLICY_IN_CEL} == 'SingleStack' && {_COUNT_IN_CEL} == 1) || "
        f"({_POLICY_IN_CEL} == 'RequireDualStack' && {_COUNT_IN_CEL} == 2 && "
        "self.ipFamilies[0] != self.ipFamilies[1])",
        message=f"'ipFamilies has %d entries with ipFamilyPolicy %s: name {_EXPECTED}'"
        f".format([{_COUNT_IN_CEL}, {_POLICY_IN_CEL}])",
        holds=_fits,
        problem=lambda spec: (
            f"ipFamilies has {len(spec.ip_families)} entries with ipFamilyPolicy "
            f"{spec.ip_family_policy or 'none'}: name {_EXPECTED}"
        ),
    ),
    Rule(
        name="VersionWithoutIPv6",
        expression=f"!({_FIRST_IS_V6}) || !self.version.matches('{WITHOUT_V6_PATTERN}')",
        message=f"'ipFamilies begins with IPv6 with version %s: {_WHY_NOT_V6}'.format([self.version])",
        holds=lambda spec: spec.ip_families[:1] != (IpFamily.V6,) or not fails_at_v6(spec.version),
        problem=lambda spec: f"ipFamilies begins with IPv6 with version {spec.version}: {_WHY_NOT_V6}",
    ),
    Rule(
        name="Unchangeable",
        expression="!has(oldSelf.ipFamilies) || oldSelf.ipFamilies.size() == 0 || !has(self.ipFamilies) || "
        "self.ipFamilies.size() == 0 || self.ipFamilies[0] == oldSelf.ipFamilies[0]",
        message="'ipFamilies[0] cannot change from %s to %s: brokers announce addresses of that family; make "
        "another cluster'.format([oldSelf.ipFamilies[0], self.ipFamilies[0]])",
        reason="FieldValueForbidden",
    ),
    Rule(
        name="Unchangeable",
        expression="!has(oldSelf.ipFamilyPolicy) || has(self.ipFamilyPolicy)",
        message="'ipFamilyPolicy cannot change from %s to %s: set SingleStack to give the second family up'"
        f".format([oldSelf.ipFamilyPolicy, {_POLICY_IN_CEL}])",
        reason="FieldValueForbidden",
    ),
)
