"""Every bound on what a stranger may send to a controller, or make it hold: one table.

A stranger is any process that reaches a port. Each row has a name, a unit, a value and a reason. Code takes
the value by its name; tests and the fuzzer read the table. `ha_sidecar.limits` has those of the sidecar.

| enforced in | bounds |
|---|---|
| `remoting.frame` | lengths of frames and headers |
| `remoting.text_bounds` | lengths of texts in a request |
| `bounded_json` | size and depth of JSON |
| `channel.memory` | bytes that all connections hold |
| `channel.places` | numbers of connections |
| `channel.deadlines` | times within which a connection must progress |
| `channel.http_port` | connections, headers, bodies and answers of HTTP |
| `server.peers` | frames, snapshots and connections of the peers' port |
| `raft.peer_checks` | numbers in a peer's message |

Never here: I/O, and bounds on our own work.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound.

    Attributes:
        name: the constant of this module.
        unit: of the value.
        value: the largest that is allowed.
        why: the reason for the value.
    """

    name: str
    unit: str
    value: int
    why: str


def enter(table: dict[str, Limit], name: str, unit: str, value: int, why: str) -> int:
    """Enter a bound into a table; return its value."""
    table[name] = Limit(name, unit, value, why)
    return value


LIMITS: Final[dict[str, Limit]] = {}
"""All bounds by name, in the order of this module."""

_limit: Final = partial(enter, LIMITS)


_KIB: Final = 1024
_MIB: Final = 1024 * 1024

# Frames of the remoting protocol.

FRAME_BYTES_MAX: Final = _limit(
    "FRAME_BYTES_MAX", "bytes", 16 * _MIB, "RocketMQ's default of com.rocketmq.remoting.frameMaxLength"
)
CONTROL_FRAME_BYTES_MAX: Final = _limit(
    "CONTROL_FRAME_BYTES_MAX",
    "bytes",
    64 * _KIB,
    "a request of a broker has less than 2 KiB, a SyncStateSet of 1,000 ids 8 KiB",
)
LARGE_REQUEST_BYTES_MAX: Final = _limit(
    "LARGE_REQUEST_BYTES_MAX",
    "bytes",
    4 * _MIB,
    "request 1006 names all groups: 10,000 names of 255 bytes are 2.5 MB",
)

# Texts of a request, in UTF-8.

NAME_BYTES_MAX: Final = _limit(
    "NAME_BYTES_MAX",
    "bytes",
    255,
    "a host name has at most 253 bytes, and RocketMQ names a topic after each broker",
)
ADDRESS_BYTES_MAX: Final = _limit(
    "ADDRESS_BYTES_MAX", "bytes", 300, "of host:port; a host name has at most 253 bytes"
)
CHECK_CODE_BYTES_MAX: Final = _limit("CHECK_CODE_BYTES_MAX", "bytes", 400, "an address and milliseconds")
ID_LIST_BYTES_MAX: Final = _limit("ID_LIST_BYTES_MAX", "bytes", 4_096, "200 of the longest ids")
TOKEN_BYTES_MAX: Final = _limit("TOKEN_BYTES_MAX", "bytes", 1_024, "of the cluster's token")
KIND_BYTES_MAX: Final = _limit("KIND_BYTES_MAX", "bytes", 32, "of the kind of a replica")
GROUP_MEMBERS_MAX: Final = _limit(
    "GROUP_MEMBERS_MAX", "members", 1_000, "of one group, and ids in one SyncStateSet"
)

# JSON that another process wrote.

JSON_BYTES_MAX: Final = _limit(
    "JSON_BYTES_MAX", "bytes", 64 * _MIB, "one answer of the largest controllers: some 10,000 groups"
)
JSON_DEPTH_MAX: Final = _limit(
    "JSON_DEPTH_MAX",
    "levels",
    128,
    "of lists and objects; the definitions of Kubernetes' kinds have some 40",
)

HTTP_ANSWER_BYTES_MAX: Final = _limit(
    "HTTP_ANSWER_BYTES_MAX", "bytes", 64 * _MIB, "of another process, over HTTP: as JSON_BYTES_MAX"
)
SEQUENCE_DIGITS_MAX: Final = _limit("SEQUENCE_DIGITS_MAX", "digits", 19, "of an event's number: 64 bits")

# Memory.

HELD_BYTES_MAX: Final = _limit(
    "HELD_BYTES_MAX",
    "bytes",
    64 * _MIB,
    "unfinished frames, waiting requests and unsent answers of all connections: a fraction of the chart's "
    "memory limit",
)
UNSENT_ANSWERS_BYTES_MAX: Final = _limit(
    "UNSENT_ANSWERS_BYTES_MAX",
    "bytes",
    8 * _MIB,
    "for one client that does not read: twice the largest answer, 10,000 groups by request 1006",
)
RECEIVE_BUFFER_BYTES: Final = _limit(
    "RECEIVE_BUFFER_BYTES",
    "bytes",
    64 * _KIB,
    "asked of the kernel for each connection, so that a flood of data does not fill a turn of the loop",
)
SEND_BUFFER_BYTES: Final = _limit(
    "SEND_BUFFER_BYTES",
    "bytes",
    128 * _KIB,
    "asked of the kernel for each connection, whose own bound of 4 MiB counts as memory of the container",
)
REQUESTS_WAITING_MAX: Final = _limit(
    "REQUESTS_WAITING_MAX", "requests", 50_000, "RocketMQ's controllerRequestThreadPoolQueueCapacity"
)

# Connections of the remoting port.

CONNECTIONS_MAX: Final = _limit(
    "CONNECTIONS_MAX", "connections", 10_000, "brokers, companions and tools of the largest fleet"
)
SOURCE_CONNECTIONS_MAX: Final = _limit(
    "SOURCE_CONNECTIONS_MAX",
    "connections",
    1_000,
    "without a living member, from one address; the members of a fleet behind one NAT do not count",
)
HANDSHAKE_S_MAX: Final = _limit("HANDSHAKE_S_MAX", "seconds", 5, "for a TLS handshake: some round trips")
FIRST_REQUEST_S_MAX: Final = _limit(
    "FIRST_REQUEST_S_MAX",
    "seconds",
    60,
    "a broker that starts dials all controllers and asks one of them; RocketMQ waits 120 s",
)
FRAME_S_MAX: Final = _limit(
    "FRAME_S_MAX", "seconds", 10, "from the first to the last byte of a frame; RocketMQ's clients wait 3 s"
)
WRITE_S_MAX: Final = _limit(
    "WRITE_S_MAX", "seconds", 30, "during which a client reads nothing that waits for it"
)

# Heartbeats.

LIVE_MEMBERS_MAX: Final = _limit(
    "LIVE_MEMBERS_MAX", "members", 100_000, "registered members that live, of all groups"
)
CHANNEL_MEMBERS_MAX: Final = _limit(
    "CHANNEL_MEMBERS_MAX", "members", 20_000, "that one connection holds: a broker has one, a load test many"
)
UNREGISTERED_MAX: Final = _limit(
    "UNREGISTERED_MAX",
    "senders",
    10_000,
    "of heartbeats that no group has registered: a fleet whose controllers lost their stores",
)
GROUP_UNREGISTERED_MAX: Final = _limit(
    "GROUP_UNREGISTERED_MAX", "senders", 1_000, "of one group, as many as a group has members"
)
SOURCE_UNREGISTERED_MAX: Final = _limit(
    "SOURCE_UNREGISTERED_MAX", "senders", 500, "of one source address: half of a group's bound"
)
CHANNEL_UNREGISTERED_MAX: Final = _limit(
    "CHANNEL_UNREGISTERED_MAX", "senders", 100, "by one connection: the brokers of one container"
)

# Heartbeats of node agents.

NODE_AGENTS_MAX: Final = _limit(
    "NODE_AGENTS_MAX", "agents", 1_000, "whose heartbeats a controller keeps: one for each node"
)
NODE_MEMBERS_MAX: Final = _limit(
    "NODE_MEMBERS_MAX", "members", 256, "that one agent names: a node of Kubernetes runs 110 pods by default"
)
NODE_BEAT_BYTES_MAX: Final = _limit(
    "NODE_BEAT_BYTES_MAX", "bytes", 32 * _KIB, "of one heartbeat: 256 members with names of usual length"
)

# HTTP ports.

HTTP_CONNECTIONS_MAX: Final = _limit(
    "HTTP_CONNECTIONS_MAX", "connections", 1_024, "probes, scrapers, the operator and its event streams"
)
HTTP_SOURCE_CONNECTIONS_MAX: Final = _limit(
    "HTTP_SOURCE_CONNECTIONS_MAX", "connections", 256, "without a running request, from one address"
)
HTTP_HEADER_S_MAX: Final = _limit(
    "HTTP_HEADER_S_MAX",
    "seconds",
    75,
    "for the header of a request, and between two requests: above the 60 s for which proxies keep idle "
    "connections",
)
HTTP_BODY_BYTES_MAX: Final = _limit("HTTP_BODY_BYTES_MAX", "bytes", 16 * _KIB, "a list of 100 members")
IMPORT_BODY_BYTES_MAX: Final = _limit(
    "IMPORT_BODY_BYTES_MAX",
    "bytes",
    256 * _KIB,
    "of the groups that an administrator imports: 800 of 3 members",
)
HTTP_BODY_S_MAX: Final = _limit("HTTP_BODY_S_MAX", "seconds", 10, "for the body of a request")
HTTP_UNSENT_BYTES_MAX: Final = _limit(
    "HTTP_UNSENT_BYTES_MAX",
    "bytes",
    16 * _MIB,
    "of answers that their clients have not read, of all connections: the smallest containers have 128 MiB",
)
CONTROLLER_UNSENT_BYTES_MAX: Final = _limit(
    "CONTROLLER_UNSENT_BYTES_MAX",
    "bytes",
    64 * _MIB,
    "the same of a controller: a dozen lists of 10,000 groups",
)
EVENT_STREAMS_MAX: Final = _limit(
    "EVENT_STREAMS_MAX", "streams", 128, "one each for the operator, the collector and people"
)
SOURCE_EVENT_STREAMS_MAX: Final = _limit(
    "SOURCE_EVENT_STREAMS_MAX", "streams", 32, "of one address: a quarter, so that others get one"
)

# The peers' port. Before its greeting a peer is a stranger, and anybody may play a peer whose store it knows.

PEER_CONNECTIONS_MAX: Final = _limit(
    "PEER_CONNECTIONS_MAX", "connections", 256, "a cluster has one from each peer"
)
PEER_SOURCE_CONNECTIONS_MAX: Final = _limit(
    "PEER_SOURCE_CONNECTIONS_MAX", "connections", 32, "before an accepted greeting, from one address"
)
PEER_GREETING_BYTES_MAX: Final = _limit(
    "PEER_GREETING_BYTES_MAX", "bytes", 4_096, "of memory before the greeting: names and one address"
)
PEER_GREETING_S_MAX: Final = _limit("PEER_GREETING_S_MAX", "seconds", 2, "until the greeting is whole")
PEER_FRAME_BYTES_MAX: Final = _limit(
    "PEER_FRAME_BYTES_MAX", "bytes", 16 * _MIB, "a message carries a megabyte of entries, or one entry"
)
PEER_PART_BYTES: Final = _limit(
    "PEER_PART_BYTES",
    "bytes",
    256 * _KIB,
    "of a snapshot at a time: a heartbeat waits behind one part at most, 2 ms at 1 Gbit/s",
)
PEER_SNAPSHOT_BYTES_MAX: Final = _limit(
    "PEER_SNAPSHOT_BYTES_MAX", "bytes", 256 * _MIB, "10,000 groups with their history take some 10 MB"
)
PEER_UNSENT_BYTES_MAX: Final = _limit(
    "PEER_UNSENT_BYTES_MAX", "bytes", 32 * _MIB, "that wait for a slow peer"
)
RAFT_TERM_MAX: Final = _limit("RAFT_TERM_MAX", "terms", 2**61, "in a peer's message; stored ones go further")
RAFT_INDEX_MAX: Final = _limit("RAFT_INDEX_MAX", "entries", 2**61, "as RAFT_TERM_MAX")
RAFT_TERM_AHEAD_MAX: Final = _limit(
    "RAFT_TERM_AHEAD_MAX", "terms", 2**30, "ahead of this node: an election every 50 ms for 1.7 years"
)
RAFT_INDEX_AHEAD_MAX: Final = _limit(
    "RAFT_INDEX_AHEAD_MAX", "entries", 2**42, "ahead of this node: 100,000 per second for 1.4 years"
)
RAFT_MEMBERS_MAX: Final = _limit(
    "RAFT_MEMBERS_MAX", "members", 64, "nine before and nine after a joint change are the most ever made"
)

# Log lines about strangers.

LOG_LINES_BURST_MAX: Final = _limit(
    "LOG_LINES_BURST_MAX", "lines", 20, "of one kind in a row, enough to see a pattern"
)
LOG_LINE_INTERVAL_S: Final = _limit(
    "LOG_LINE_INTERVAL_S", "seconds", 1, "between further lines of one kind; they tell how many were left out"
)
