"""Keep an operator of the whole cluster from acting beside an older one.

The rule is in `plan.leadership.other_operators`.
"""

import asyncio
import logging
from typing import Final

from rocketmq_operator.clients.api import KubeApi, PeerUnavailableError, RequestRefusedError
from rocketmq_operator.plan.leadership.other_operators import (
    OPERATOR_LABELS,
    earlier_operator,
    operators_in_watched_namespaces,
)

CHECK_S: Final = 15.0
_LOG: Final = logging.getLogger(__name__)


class OtherOperators:
    """Looks for other operators again and again; `problem` says why ours must not act."""

    def __init__(self, kube: KubeApi, own_namespace: str, *, whole_cluster: bool) -> None:
        """Store where our own Deployment is, and whether we watch every namespace.

        Only an operator of every namespace may look for others.
        """
        self._kube: Final = kube
        self._own_namespace: Final = own_namespace
        self._whole_cluster: Final = whole_cluster
        self._inside: tuple[str, ...] = ()
        self.problem = "other operators were not looked for yet" if whole_cluster else ""

    def may_act(self) -> bool:
        """Tell whether no other operator is in the way."""
        return not self.problem

    async def run(self) -> None:
        """Look until cancelled."""
        while self._whole_cluster:
            await self.once()
            await asyncio.sleep(CHECK_S)

    async def once(self) -> None:
        """Look now; while the API server does not answer, the previous result remains valid."""
        try:
            found = await self._kube.find("Deployment", "", OPERATOR_LABELS)
        except RequestRefusedError as error:
            _LOG.warning("other operators cannot be looked for: %s", error)
            self.problem = ""
            return
        except PeerUnavailableError as error:
            _LOG.warning("other operators: %s", error)
            return
        self._note(earlier_operator(found, self._own_namespace))
        inside = operators_in_watched_namespaces(found, self._own_namespace)
        if inside != self._inside and inside:
            _LOG.error(
                "operator %s watches namespaces that this one watches too: both write the same objects; "
                "remove one of the releases, or set operator.watchNamespaces of both",
                ", ".join(inside),
            )
        self._inside = inside

    def _note(self, earlier: str) -> None:
        problem = ""
        if earlier:
            problem = (
                f"operator {earlier} was installed before this one and watches every namespace too: this one "
                "does nothing; remove one of the releases, or set operator.clusterWide to false"
            )
        if problem != self.problem:
            _LOG.log(logging.ERROR if problem else logging.INFO, "%s", problem or "no other operator")
        self.problem = problem
