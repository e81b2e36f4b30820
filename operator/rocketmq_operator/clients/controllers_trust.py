"""How the operator reaches the controllers of each cluster: HTTPS, HTTP, or the first that answers.

The ConfigMap of authorities of a cluster decides (`plan.tls.controllers`). It is noted at each look at the
cluster or one of its groups, so that a client always uses the newest authorities.
"""

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from rocketmq_operator.plan.tls.controllers import REQUIRED, REQUIRED_KEY, TRUST_KEY

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Way:
    """One way to send a request.

    Attributes:
        scheme: http or https.
        verify: how the other end is verified.
    """

    scheme: str
    verify: ssl.SSLContext | bool = True


PLAIN: Final = (Way("http"),)


class ControllersTrust:
    """The authorities of the clusters, as they were found lately."""

    def __init__(self) -> None:
        """Know no cluster; the controllers of an unknown one are read over HTTP."""
        self._noted: Final[dict[tuple[str, str], tuple[Mapping[str, str], tuple[Way, ...]]]] = {}

    def note(self, namespace: str, cluster: str, config_map: Mapping[str, Any] | None) -> None:
        """Learn the ConfigMap of authorities of a cluster; None if it has none."""
        if config_map is None:
            self._noted.pop((namespace, cluster), None)
            return
        data: Mapping[str, str] = config_map.get("data") or {}
        noted = self._noted.get((namespace, cluster))
        if noted is None or noted[0] != data:
            self._noted[namespace, cluster] = (data, _ways(cluster, data))

    def ways(self, namespace: str, cluster: str) -> tuple[Way, ...]:
        """Return the ways to the controllers of a cluster, best first."""
        noted = self._noted.get((namespace, cluster))
        return PLAIN if noted is None else noted[1]


def _ways(cluster: str, data: Mapping[str, str]) -> tuple[Way, ...]:
    try:
        secure = Way("https", ssl.create_default_context(cadata=data.get(TRUST_KEY, "")))
    except ssl.SSLError as error:
        _LOG.warning("the authorities of cluster %s cannot be read: %s", cluster, error)
        # Verified with the authorities of this system, which did not sign: a token must not travel in plain.
        secure = Way("https")
    return (secure,) if data.get(REQUIRED_KEY) == REQUIRED else (secure, *PLAIN)
