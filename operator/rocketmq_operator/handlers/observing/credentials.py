"""Look at the super users of a cluster: its Secret, and during a rotation what each broker knows of them.

The operator asks brokers only while a rotation runs. A broker that does not answer, or a group whose brokers
are not all there, is a problem that the rotation waits for, not an error.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from controller_core.access.signing import Credentials
from controller_core.remoting.host_port import join_host_port
from rocketmq_operator.api.broker_group import BrokerGroupSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.members.learners import LearnerKind
from rocketmq_operator.api.members.roles import RoleMode
from rocketmq_operator.api.names import GROUP_KIND, ROTATE_ANNOTATION, USER_KIND
from rocketmq_operator.clients.api import BrokerApi, ControllerApi, Json, KubeApi, PeerUnavailableError
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import Children, ObjectKey, cluster_ip
from rocketmq_operator.plan.common.observation import ObservationError
from rocketmq_operator.plan.credentials.inner_users import NO_USERS, InnerUsers, inner_users, signer_of
from rocketmq_operator.plan.credentials.rotation import BrokerUsers, ObservedRotation
from rocketmq_operator.plan.group.observed import parse_group


class _MissingBrokersError(Exception):
    """Not all brokers of a group are known, or one does not answer."""


def first_users(
    spec: RocketMQClusterSpec, own: Json | None, lent: Json | None, new_token: Callable[[], str]
) -> InnerUsers:
    """Return the users that a cluster's Secret should have: those that it has, else new ones.

    Args:
        spec: the cluster's spec.
        own: its Secret; None without one.
        lent: the Secret of the cluster whose controllers it uses: they sign with that user.
        new_token: makes a password.
    """
    if (found := inner_users(own)) is not None:
        return found
    if (signer := signer_of(lent)) is not None:
        return InnerUsers(signer)
    return InnerUsers(Credentials(names.INNER_USER, new_token())) if spec.has_users else NO_USERS


@dataclass(frozen=True, slots=True)
class RotationObserver:
    """Looks at the rotation of one cluster's super user.

    Attributes:
        kube: the API server.
        controllers: those that the cluster uses.
        brokers: the client for brokers.
        services: Services of all groups of the cluster.
    """

    kube: KubeApi
    controllers: ControllerApi
    brokers: BrokerApi
    services: Children

    async def observe(
        self, resource: Json, secret: Json | None, users: InnerUsers, new_token: Callable[[], str]
    ) -> ObservedRotation:
        """Return what the rotation depends on.

        Args:
            resource: the RocketMQCluster.
            secret: its Secret with the super users; None before there is one.
            users: what that Secret has.
            new_token: makes the password of a next user.
        """
        if secret is None:
            return ObservedRotation()
        metadata = resource["metadata"]
        made = secret["metadata"].get("creationTimestamp")
        brokers: tuple[BrokerUsers, ...] = ()
        problem = ""
        if users.rotates:
            try:
                brokers = await self._brokers(metadata["namespace"], metadata["name"], users)
            except (_MissingBrokersError, PeerUnavailableError, ObservationError) as error:
                problem = str(error)
        return ObservedRotation(
            users=users,
            made=None if made is None else datetime.fromisoformat(made),
            request=str((metadata.get("annotations") or {}).get(ROTATE_ANNOTATION, "")),
            new_password=new_token(),
            brokers=brokers,
            problem=problem,
        )

    async def _brokers(self, namespace: str, cluster: str, users: InnerUsers) -> tuple[BrokerUsers, ...]:
        found = await self.kube.find(GROUP_KIND.kind, namespace, {})
        groups = [one for one in found if (one.get("spec") or {}).get("cluster") == cluster]
        lists = await asyncio.gather(*(self._of_group(cluster, one, users) for one in groups))
        # Masters of all groups first.
        return tuple(one for ones in lists for one in ones[:1]) + tuple(
            one for ones in lists for one in ones[1:]
        )

    async def _of_group(self, cluster: str, resource: Json, users: InnerUsers) -> list[BrokerUsers]:
        """Return the brokers of a group, its master first.

        Raises:
            _MissingBrokersError: not all of them are there, or they are not to be changed.
            PeerUnavailableError: a broker, or the controllers, do not answer.
        """
        group = resource["metadata"]["name"]
        addresses = await self._addresses(cluster, group, resource)
        return list(await asyncio.gather(*(self._ask(group, one, users) for one in addresses)))

    async def _addresses(self, cluster: str, group: str, resource: Json) -> list[str]:
        try:
            spec = BrokerGroupSpec.model_validate(resource["spec"])
        except ValidationError as error:
            raise _MissingBrokersError(f"the spec of {group} is invalid") from error
        if spec.paused or spec.hibernated:
            raise _MissingBrokersError(f"{group} is {'paused' if spec.paused else 'hibernated'}")
        learners = spec.learners.count if spec.learners.kind is LearnerKind.BROKER else 0
        learner_set = names.learner_set(group)
        also = [self._service(names.member(learner_set, number)) for number in range(learners)]
        if spec.mode is RoleMode.STATIC:
            return [*(self._service(names.member(group, number)) for number in range(spec.replicas)), *also]
        value = await self.controllers.group(cluster, group)
        reported = None if value is None else parse_group(value)
        if reported is None or reported.master_id is None:
            raise _MissingBrokersError(f"{group} has no master")
        alive = {one.address for one in reported.members if one.electable and one.alive}
        slaves = sorted(alive - {reported.master_address})
        if len(slaves) + 1 < spec.replicas:
            raise _MissingBrokersError(f"{len(slaves) + 1} of {spec.replicas} brokers of {group} are alive")
        return [reported.master_address, *slaves, *also]

    def _service(self, member: str) -> str:
        live = self.services.get(ObjectKey("Service", member))
        if live is None or not cluster_ip(live):
            raise _MissingBrokersError(f"{member} has no address")
        return join_host_port(cluster_ip(live), names.BROKER_PORT)

    async def _ask(self, group: str, address: str, users: InnerUsers) -> BrokerUsers:
        signer, kind = users.current, USER_KIND.kind
        if users.next is not None:
            account = await self.brokers.read(address, kind, users.next.username, signer)
            return BrokerUsers(group, address, next=account)
        signs_as = await self.brokers.signs_as(address, signer)
        former = await self.brokers.read(address, kind, users.former, signer)
        return BrokerUsers(group, address, signs_as, knows_former=former is not None)
