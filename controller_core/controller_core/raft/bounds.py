"""How large Raft's numbers may be, and how far ahead of this node an honest peer can be.

Terms and indices are 64 bits wide in memory and on disk. A number at the end of that range leaves no room for
the next election or the next entry, so a node that took one from a peer could never go on, not even after a
restart. Two kinds of bounds prevent that:

    absolute   the maximum in a peer's message, and, above it, the maximum in a log: we use the room between
    relative   how far past this node's own number a peer may be: more than any honest history can explain

The relative bounds are for histories, not for bursts: a node may come back from a backup, or from a partition
of months, and its cluster may have done nothing but elect or append in that time. With pre-vote a node that
is cut off does not raise its term, so only elections that a quorum takes part in count.
"""

from typing import Final

from controller_core import limits

TERM_MAX: Final = limits.RAFT_TERM_MAX
"""Largest term that a peer's message may carry."""
INDEX_MAX: Final = limits.RAFT_INDEX_MAX
"""Largest log index that a peer's message may carry."""
STORED_TERM_MAX: Final = 2**62
"""Largest term that a log may hold: what a peer may name, and as many elections again."""
STORED_INDEX_MAX: Final = 2**62
"""Largest index that a log may hold: what a peer may name, and as many entries again."""
TERM_AHEAD_MAX: Final = limits.RAFT_TERM_AHEAD_MAX
"""How many terms a peer may be ahead: an election every 50 ms, the shortest timeout allowed, for 1.7
years."""
INDEX_AHEAD_MAX: Final = limits.RAFT_INDEX_AHEAD_MAX
"""How many entries a peer may be ahead: 100,000 entries per second for 1.4 years."""
NODE_ID_MAX: Final = 2**32
"""Largest id of a node; names of the peers list, n0 to n99999, stay far below it."""
MEMBERS_MAX: Final = limits.RAFT_MEMBERS_MAX
"""Members that a membership may have: nine before and nine after a joint change are the most that are ever
made."""
