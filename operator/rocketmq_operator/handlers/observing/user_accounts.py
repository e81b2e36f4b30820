"""Look at what only a User has: its Secret, and whether its cluster knows users at all."""

import asyncio

from rocketmq_operator.api.access.user import PasswordSecret, UserSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.clients.api import Json, RequestRefusedError
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment, InvalidSpecError
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import Wait, name_taken
from rocketmq_operator.plan.common.objects import Owner
from rocketmq_operator.plan.metadata.observed import ObservedAccount
from rocketmq_operator.plan.metadata.user_secret import (
    PasswordError,
    is_secret_of,
    is_written,
    password_in,
    user_secret,
)


async def observe_account(
    environment: Environment, owner: Owner, spec: UserSpec, cluster: RocketMQClusterSpec, username: str
) -> ObservedAccount:
    """Return what only a User has; no Secret is read for a cluster without users.

    Raises:
        InvalidSpecError: the operator may not read the Secret.
        PeerUnavailableError: the API server does not answer.
    """
    if not cluster.has_users:
        text = f"RocketMQCluster {spec.cluster} has authentication.type None: its brokers know no users"
        return ObservedAccount(problem=Wait("AuthenticationOff", text), has_rights=False)
    if spec.password_secret is not None:
        return await _given(environment, owner, spec.password_secret, has_rights=cluster.has_rights)
    name = names.user_secret(owner.name)
    live, trust = await asyncio.gather(
        _secret(environment, owner.namespace, name),
        environment.kube.get("ConfigMap", owner.namespace, names.trust(spec.cluster)),
    )
    if live is not None and not is_secret_of(live, owner, spec):
        return ObservedAccount(problem=name_taken(live, owner), has_rights=cluster.has_rights)
    try:
        password = environment.new_token() if live is None else password_in(live, names.PASSWORD_KEY)
    except PasswordError:
        password = environment.new_token()
    wanted = user_secret(owner, spec, cluster, username, password, trust)
    is_made = live is not None and is_written(live, wanted)
    return ObservedAccount(
        password=password,
        secret=None if is_made else wanted,
        binding=name,
        has_rights=cluster.has_rights,
    )


async def _given(
    environment: Environment, owner: Owner, reference: PasswordSecret, *, has_rights: bool
) -> ObservedAccount:
    """Return the account of a User whose password a person keeps."""
    secret = await _secret(environment, owner.namespace, reference.name)
    if secret is None:
        wait = Wait("SecretMissing", f"Secret {reference.name} does not exist")
        return ObservedAccount(problem=wait, has_rights=has_rights)
    try:
        return ObservedAccount(password=password_in(secret, reference.key), has_rights=has_rights)
    except PasswordError as error:
        return ObservedAccount(problem=Wait("PasswordInvalid", str(error)), has_rights=has_rights)


async def _secret(environment: Environment, namespace: str, name: str) -> Json | None:
    try:
        found = await environment.kube.get("Secret", namespace, name)
    except RequestRefusedError as error:
        problem = f"the operator may not read Secret {name}: list it in the chart's operator.userSecrets"
        raise InvalidSpecError("SecretNotAllowed", problem) from error
    return None if found is None else {"kind": "Secret"} | found
