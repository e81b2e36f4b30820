"""The Secret of a User: the one that the operator makes, and the password in any.

The operator's Secret has the layout of servicebinding.io, so that an application can mount it as it is. With
`deletionPolicy: Retain` it is without an owner: brokers keep the user, and the application its password.
"""

import base64
import binascii
from typing import Final

from controller_core.remoting.host_port import read_host_port
from controller_core.tls.files import TRUST_FILE
from rocketmq_operator.api.access.user import UserSpec
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.common import DeletionPolicy
from rocketmq_operator.api.names import CLUSTER_LABEL, USER_LABEL
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.common import endpoints, names
from rocketmq_operator.plan.common.objects import (
    MANAGED_BY,
    Json,
    Live,
    Owner,
    belonging_labels,
    child,
    controller_of,
    covers,
    is_ours,
)
from rocketmq_operator.plan.tls.clients import is_in_tls, published_stage

PASSWORD_LENGTH_MAX: Final = 256


class PasswordError(ValueError):
    """A Secret lacks a password that brokers can take; the text does not quote it."""


def password_in(secret: Live, key: str) -> str:
    """Return the password in a Secret.

    Raises:
        PasswordError: the key is missing, or its value is not a line of printable characters.
    """
    data: dict[str, str] = secret.get("data") or {}
    where = f"Secret {secret['metadata']['name']}"
    if key not in data:
        raise PasswordError(f"{where} lacks the key {key}")
    try:
        text = base64.b64decode(data[key]).decode().removesuffix("\n")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise PasswordError(f"{where}: the value of {key} is not text") from error
    if not text.strip() or not text.isprintable() or len(text) > PASSWORD_LENGTH_MAX:
        raise PasswordError(
            f"{where}: invalid value of {key} (expected a line of 1 to {PASSWORD_LENGTH_MAX} printable "
            f"characters, it has {len(text)})"
        )
    return text


def user_secret(
    owner: Owner,
    spec: UserSpec,
    cluster: RocketMQClusterSpec,
    username: str,
    password: str,
    trust: Live | None = None,
) -> Json:
    """Return the Secret with all that an application needs to connect as this user.

    Args:
        owner: the User.
        spec: its spec.
        cluster: the spec of its cluster.
        username: its name in the brokers.
        password: its password.
        trust: the cluster's ConfigMap of authorities; None while it does not exist.
    """
    where = owner.namespace
    service = f"{names.name_servers(spec.cluster)}.{where}.svc:{names.NAME_SERVER_PORT}"
    first = (*cluster.name_servers.external, service)[0]
    host, port = read_host_port(first)
    values = {
        "type": "rocketmq",
        "provider": MANAGED_BY,
        "host": host,
        "port": str(port),
        "namesrvAddr": endpoints.name_server_addresses(spec.cluster, where, cluster),
        names.USERNAME_KEY: username,
        names.PASSWORD_KEY: password,
    }
    if cluster.proxy.mode is not ProxyMode.NONE:
        values["grpcEndpoints"] = f"{names.proxies(spec.cluster)}.{where}.svc:{names.PROXY_GRPC_PORT}"
    authorities = ((trust or {}).get("data") or {}).get(TRUST_FILE, "")
    if authorities and is_in_tls(cluster.tls, published_stage(trust, ())):
        values[TRUST_FILE] = authorities
    made = child(
        owner,
        "Secret",
        names.user_secret(owner.name),
        labels=belonging_labels(spec.cluster) | {USER_LABEL: owner.name},
        type="servicebinding.io/rocketmq",
        data={key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    )
    if spec.deletion_policy is DeletionPolicy.RETAIN:
        del made["metadata"]["ownerReferences"]
    return made


def is_secret_of(live: Live, owner: Owner, spec: UserSpec) -> bool:
    """Tell whether a Secret is the one that the operator made for this User."""
    return is_ours(live, owner, {CLUSTER_LABEL: spec.cluster, USER_LABEL: owner.name})


def is_written(live: Live, wanted: Live) -> bool:
    """Tell whether the Secret is as it should be, its owner too."""
    is_owned = "ownerReferences" in wanted["metadata"]
    return covers(live, wanted) and (controller_of(live) is not None) == is_owned
