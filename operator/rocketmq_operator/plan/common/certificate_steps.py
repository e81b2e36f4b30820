"""Steps that need chance: keys are made when the step is carried out, never in a plan."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class AuthorityChange(StrEnum):
    """How a cluster's authority changes; `plan.tls.steps` has the table."""

    CREATE = "make"
    TRUST_NEXT = "trust the next"
    SIGN_WITH_NEXT = "sign with the next"
    DROP_OLD = "drop the former"


@dataclass(frozen=True, slots=True)
class WriteAuthority:
    """Change the Secret with a cluster's authority.

    Attributes:
        secret: its name.
        change: which change.
        why: for the plan's reader.
    """

    secret: str
    change: AuthorityChange
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.change} authority ({self.why})"


@dataclass(frozen=True, slots=True)
class IssueCertificates:
    """Write a Secret with certificates, and with the authorities that are trusted.

    Attributes:
        secret: its name.
        hosts: of each certificate, by its id.
        renewed: ids of those that are made anew.
        why: for the plan's reader.
    """

    secret: str
    hosts: Mapping[str, frozenset[str]]
    renewed: frozenset[str]
    why: str

    def __str__(self) -> str:
        """Say it in words."""
        which = ", ".join(sorted(self.renewed)) or "no certificate"
        return f"issue {which} of Secret {self.secret} ({self.why})"
