"""Every bound on what a stranger may send to a process of the sidecar, or make it hold: one table.

It continues `controller_core.limits`, whose bounds of frames, deadlines and HTTP connections hold here too.

| enforced in | bounds |
|---|---|
| `replica.replica` | the remoting port of a log replica |
| `replica.slave_server` | connections of the HA port |
| `transfer.codec`, `transfer.slave` | messages of the HA port |
| `companion.holding.held_clients` | clients of a dead master |
| `companion.guests` | clients that come by the address of a former master |
| `common.http_server` | answers and event streams of all HTTP pages |

Never here: I/O, and bounds on our own work.
"""

from functools import partial
from typing import Final

from controller_core.limits import Limit, enter

LIMITS: Final[dict[str, Limit]] = {}
"""All bounds by name, in the order of this module."""

_limit: Final = partial(enter, LIMITS)
_KIB: Final = 1024
_MIB: Final = 1024 * 1024

# The remoting port of a log replica: notices of controllers, questions of members.

REPLICA_CONNECTIONS_MAX: Final = _limit(
    "REPLICA_CONNECTIONS_MAX", "connections", 512, "members, controllers and tools of one group"
)
REPLICA_SOURCE_CONNECTIONS_MAX: Final = _limit(
    "REPLICA_SOURCE_CONNECTIONS_MAX", "connections", 64, "of one address"
)
REPLICA_FRAME_BYTES_MAX: Final = _limit(
    "REPLICA_FRAME_BYTES_MAX", "bytes", 256 * _KIB, "a notice of more than 64 KiB is answered with its bound"
)
REPLICA_HELD_BYTES_MAX: Final = _limit(
    "REPLICA_HELD_BYTES_MAX",
    "bytes",
    48 * _MIB,
    "unfinished frames and unsent answers of all connections: a fraction of a log replica's memory limit",
)
REPLICA_UNSENT_BYTES_MAX: Final = _limit(
    "REPLICA_UNSENT_BYTES_MAX", "bytes", 32 * _MIB, "for one client that does not read: its tables of topics"
)

# The HA port of a log replica.

SLAVES_MAX: Final = _limit("SLAVES_MAX", "connections", 32, "a group has fewer members by far")
SLAVES_SOURCE_MAX: Final = _limit(
    "SLAVES_SOURCE_MAX", "connections", 8, "of one address, those that copy and those that do not alike"
)

HA_EPOCHS_MAX: Final = _limit(
    "HA_EPOCHS_MAX",
    "epochs",
    1_000,
    "that a master tells, in its reply and after it; Java's reply buffer holds as many",
)
HA_BODY_BYTES_MAX: Final = _limit(
    "HA_BODY_BYTES_MAX", "bytes", 64 * _MIB, "of a frame; Java's slaves stop at 4 MiB"
)

# Clients that a companion holds while their master is dead.

HELD_CLIENTS_MAX: Final = _limit(
    "HELD_CLIENTS_MAX", "connections", 4_096, "clients of one broker in the seconds of a failover"
)
HELD_CLIENTS_BYTES_MAX: Final = _limit(
    "HELD_CLIENTS_BYTES_MAX", "bytes", 32 * _MIB, "a quarter of a companion's memory limit"
)
HELD_HEADER_BYTES_MAX: Final = _limit(
    "HELD_HEADER_BYTES_MAX",
    "bytes",
    128 * _KIB,
    "of a send, and of any other request as a whole: RocketMQ stores at most 32 KiB of properties",
)

# Clients that a companion leads to its broker from the address of a former master.

GUESTS_MAX: Final = _limit(
    "GUESTS_MAX", "connections", 4_096, "clients of one broker, until they know its routes"
)
GUESTS_SOURCE_MAX: Final = _limit(
    "GUESTS_SOURCE_MAX", "connections", 1_024, "of one address, to which the broker has not answered yet"
)
GUESTS_BYTES_MAX: Final = _limit(
    "GUESTS_BYTES_MAX", "bytes", 32 * _MIB, "not sent yet: a quarter of a companion's memory limit"
)
GUEST_READ_BYTES_MAX: Final = _limit(
    "GUEST_READ_BYTES_MAX", "bytes", 64 * _KIB, "read at a time; no more is read before these are sent"
)
GUEST_HEARTBEAT_BYTES_MAX: Final = _limit(
    "GUEST_HEARTBEAT_BYTES_MAX",
    "bytes",
    _MIB,
    "of a heartbeat: some thousand subscriptions; a longer one passes",
)
GUEST_PULLS_BYTES_MAX: Final = _limit(
    "GUEST_PULLS_BYTES_MAX", "bytes", 4 * _MIB, "pulls kept until the broker knows a consumer of their group"
)
GUEST_INTRODUCTIONS_BYTES_MAX: Final = _limit(
    "GUEST_INTRODUCTIONS_BYTES_MAX", "bytes", 4 * _MIB, "heartbeats kept until the broker tells whom it knows"
)

# HTTP pages of all processes of the sidecar.

HTTP_UNSENT_BYTES_MAX: Final = _limit(
    "HTTP_UNSENT_BYTES_MAX", "bytes", 8 * _MIB, "answers that their clients have not read, of all connections"
)
EVENT_STREAMS_MAX: Final = _limit("EVENT_STREAMS_MAX", "streams", 32, "one each for the collector and people")
SOURCE_EVENT_STREAMS_MAX: Final = _limit(
    "SOURCE_EVENT_STREAMS_MAX", "streams", 8, "of one address: a quarter, so that others get one"
)
EVENTS_PAGE_MAX: Final = _limit(
    "EVENTS_PAGE_MAX", "events", 500, "written at a time; the next ones when a client has read these"
)
