"""How the operator reaches the controllers of each cluster: HTTPS, HTTP, or the first that answers.

The ConfigMap of authorities of a cluster decides (`plan.tls.controllers`). It is noted at each look at the
cluster or one of its groups, so that a client always uses the newest authorities.
"""

import logging
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller_core.tls.dialling import ClientTls
from rocketmq_operator.plan.tls.clients import STAGE_KEY, ClientsStage
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

    def __init__(self, dial_brokers: Callable[[ClientTls | None], None] = lambda _: None) -> None:
        """Know no cluster; the controllers of an unknown one are read over HTTP.

        Args:
            dial_brokers: called with the TLS for brokers and name servers of all clusters, None for plain
                TCP, whenever that changes.
        """
        self._dial_brokers: Final = dial_brokers
        self._bundles: frozenset[str] = frozenset()
        self._noted: Final[dict[tuple[str, str], tuple[Mapping[str, str], tuple[Way, ...]]]] = {}

    def note(self, namespace: str, cluster: str, config_map: Mapping[str, Any] | None) -> None:
        """Learn the ConfigMap of authorities of a cluster; None if it has none."""
        if config_map is None:
            self._noted.pop((namespace, cluster), None)
            self._tell_bundles()
            return
        data: Mapping[str, str] = config_map.get("data") or {}
        noted = self._noted.get((namespace, cluster))
        if noted is None or noted[0] != data:
            self._noted[namespace, cluster] = (data, _ways(cluster, data))
            self._tell_bundles()

    def ways(self, namespace: str, cluster: str) -> tuple[Way, ...]:
        """Return the ways to the controllers of a cluster, best first."""
        noted = self._noted.get((namespace, cluster))
        return PLAIN if noted is None else noted[1]

    def _tell_bundles(self) -> None:
        """Tell the authorities of all clusters with TLS for clients, if they are others than before.

        One context for all: brokers of a cluster without TLS, or with an authority that is not known yet, are
        dialled in plain TCP.
        """
        found = [data for data, _ in self._noted.values() if _is_in_tls(data)]
        bundles = frozenset(data.get(TRUST_KEY, "") for data in found)
        if bundles == self._bundles:
            return
        self._bundles = bundles
        self._dial_brokers(_brokers_tls(bundles))


def _is_in_tls(data: Mapping[str, str]) -> bool:
    return data.get(STAGE_KEY, ClientsStage.DISABLED) != ClientsStage.DISABLED


def _brokers_tls(bundles: Collection[str]) -> ClientTls | None:
    """Return the TLS that trusts these authorities, whatever the other end's name is; None without any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    for bundle in sorted(bundles):
        try:
            context.load_verify_locations(cadata=bundle)
        except ssl.SSLError as error:
            _LOG.warning("authorities of a cluster cannot be read: %s", error)
    return ClientTls(context, plain_allowed=True) if bundles else None


def _ways(cluster: str, data: Mapping[str, str]) -> tuple[Way, ...]:
    try:
        secure = Way("https", ssl.create_default_context(cadata=data.get(TRUST_KEY, "")))
    except ssl.SSLError as error:
        _LOG.warning("the authorities of cluster %s cannot be read: %s", cluster, error)
        # Verified with the authorities of this system, which did not sign: a token must not travel in plain.
        secure = Way("https")
    return (secure,) if data.get(REQUIRED_KEY) == REQUIRED else (secure, *PLAIN)
