"""Who claims which name in the brokers: of two objects with the same one, the older has it.

Each pass over a Topic needs all Topics of its namespace, so this module caches the list for some seconds:
otherwise a thousand of them would be listed a thousand times. A cached list is complete for an object in it:
every older object was created before, so the list has it too.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from rocketmq_operator.clients.api import Json, KubeApi

CLAIMS_CACHED: Final = timedelta(seconds=5)
NAME_FIELDS: Final = ("topicName", "groupName", "username")


@dataclass(frozen=True, slots=True, order=True)
class BrokerNameClaim:
    """One object's claim; the least has the name."""

    since: str
    owner: str
    uid: str
    cluster: str
    name: str


class BrokerNameClaims:
    """Lists of claims by kind and namespace."""

    def __init__(self) -> None:
        """Begin without any."""
        self._cached: Final[dict[tuple[str, str], tuple[datetime, tuple[BrokerNameClaim, ...]]]] = {}

    async def older_owner(self, kube: KubeApi, kind: str, resource: Json, now: datetime) -> str:
        """Return the older object that claims the same name in the same cluster, empty if none exists.

        Raises:
            PeerUnavailableError: the API server does not answer.
        """
        own = _claim(resource)
        key = (kind, resource["metadata"]["namespace"])
        kept_at, claims = self._cached.get(key, (now, ()))
        if abs(now - kept_at) >= CLAIMS_CACHED or own not in claims:
            claims = tuple(sorted(map(_claim, await kube.find(*key, {}))))
            self._cached[key] = (now, claims)
        same = [one for one in claims if (one.cluster, one.name) == (own.cluster, own.name)]
        return same[0].owner if same and same[0] < own else ""


def _claim(resource: Json) -> BrokerNameClaim:
    metadata, spec = resource["metadata"], resource.get("spec", {})
    name = next((spec[field] for field in NAME_FIELDS if spec.get(field)), metadata["name"])
    return BrokerNameClaim(
        metadata.get("creationTimestamp", ""),
        metadata["name"],
        metadata["uid"],
        spec.get("cluster", ""),
        name,
    )
