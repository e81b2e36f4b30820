"""What SLOReports may name: a report runs an image, with a volume and an account, in the operator's name.

Whoever may write SLOReports need not have the right to make pods. So the operator makes a report only from
what the chart lists, and from what its collector has:

| field | allowed besides the lists |
|---|---|
| `image` | the default image, and the chart's own (which is in its list) |
| `source.claimName` | the volume of a report server of the namespace |
| `serviceAccountName` | the account of that report server |
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from rocketmq_operator.api.slo_report import SLOReportSpec

_DEFAULT_IMAGE: Final[str] = SLOReportSpec.model_fields["image"].default


@dataclass(frozen=True, slots=True)
class AllowedInReports:
    """The lists of the chart.

    Attributes:
        images: references, as reports write them.
        claims: names of PersistentVolumeClaims, in every namespace.
        accounts: names of ServiceAccounts, in every namespace.
    """

    images: frozenset[str] = frozenset()
    claims: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, images: Iterable[str], claims: Iterable[str], accounts: Iterable[str]) -> Self:
        """Return the lists as sets."""
        return cls(frozenset(images), frozenset(claims), frozenset(accounts))

    def problem(self, spec: SLOReportSpec, shown: Iterable[tuple[str, str]]) -> str | None:
        """Return which field of a report is not allowed, and where to allow it; None if all are.

        Args:
            spec: of the report.
            shown: claim and account of each report server of the namespace.
        """
        servers = list(shown)
        claims = self.claims | {claim for claim, _ in servers}
        accounts = self.accounts | {account for _, account in servers}
        for field, value, allowed, key in (
            ("image", spec.image, self.images | {_DEFAULT_IMAGE}, "images"),
            ("source.claimName", spec.source.claim_name, claims, "claims"),
            ("serviceAccountName", spec.service_account_name, accounts, "accounts"),
        ):
            if value is not None and value not in allowed:
                return f"{field} is {value}, which the chart's operator.reports.{key} does not list"
        return None


NOTHING_ALLOWED: Final = AllowedInReports()
