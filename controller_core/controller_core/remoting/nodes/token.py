"""The token of node agents: derived from the cluster's token, and not the other way round.

Agents run on every node, and the cluster's token changes the members of the controllers. So an agent gets
another token, which serves for its heartbeats alone.
"""

import functools
import hashlib
import hmac
from typing import Final

TOKEN_FIELD: Final = "rmqhaToken"  # noqa: S105 - the name of a field
"""Header field with the cluster's token in a request of an administrator, or the agents' in a heartbeat.

A request that is sent on to the leader loses it.
"""
_PURPOSE: Final = b"rocketmq-ha node agent"


@functools.lru_cache(maxsize=4)
def node_token(cluster_token: str) -> str:
    """Return the token of the agents of a cluster; empty for a cluster without a token."""
    if not cluster_token:
        return ""
    return hmac.new(cluster_token.encode(), _PURPOSE, hashlib.sha256).hexdigest()
