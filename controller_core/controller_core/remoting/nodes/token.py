"""The token of node agents: derived from the cluster's token, and not the other way round.

Agents run on every node, and the cluster's token changes the members of the controllers. So an agent gets
another token, which serves for its heartbeats alone.
"""

import functools
import hashlib
import hmac
from typing import Final

_PURPOSE: Final = b"rocketmq-ha node agent"


@functools.lru_cache(maxsize=4)
def node_token(cluster_token: str) -> str:
    """Return the token of the agents of a cluster; empty for a cluster without a token."""
    if not cluster_token:
        return ""
    return hmac.new(cluster_token.encode(), _PURPOSE, hashlib.sha256).hexdigest()
