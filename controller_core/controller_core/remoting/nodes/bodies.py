"""The bodies of our own requests about nodes: an agent's heartbeat, and a question between controllers.

| request | sender | body | answer |
|---|---|---|---|
| 30904 NODE_HEARTBEAT | a node agent | `NodeHeartbeat` | none, or success |
| 30905 NODE_VERDICTS | a controller that leads | `NodeQuestion` | `NodeAnswer` |

The codes are far above RocketMQ's, and fit the two bytes of its binary header.
"""

from controller_core import limits
from controller_core.remoting.bodies import Body
from controller_core.remoting.errors import BodyError
from controller_core.remoting.header import JavaLong
from controller_core.remoting.text_bounds import ADDRESS_BYTES_MAX, NAME_BYTES_MAX, text_problem


class NamedMember(Body, frozen=True):
    """A member that an agent found on its node.

    Attributes:
        host: the address of its process, from which its heartbeats come.
        cluster_name: its group's cluster; empty from an agent of an older release.
    """

    broker_name: str
    broker_id: JavaLong
    host: str
    cluster_name: str = ""


class NodeHeartbeat(Body, frozen=True):
    """All members on the node of an agent."""

    members: tuple[NamedMember, ...]


class AskedMember(Body, frozen=True):
    """A member about which a controller asks another one."""

    cluster_name: str
    broker_name: str
    broker_id: JavaLong


class NodeQuestion(Body, frozen=True):
    """Ask for a verdict (`groups.liveness.node_agents`) about each member."""

    members: tuple[AskedMember, ...] = ()


class NodeAnswer(Body, frozen=True):
    """The verdicts, in the order of the question."""

    verdicts: tuple[str, ...] = ()


def read_heartbeat(body: bytes) -> NodeHeartbeat:
    """Read the body of a 30904.

    Raises:
        BodyError: it is not one, or passes a bound.
    """
    _check_size("NodeHeartbeat", body)
    read = NodeHeartbeat.decode(body)
    _check_count("NodeHeartbeat", len(read.members))
    for member in read.members:
        _check_text("NodeHeartbeat", member.broker_name, NAME_BYTES_MAX)
        _check_text("NodeHeartbeat", member.cluster_name, NAME_BYTES_MAX)
        _check_text("NodeHeartbeat", member.host, ADDRESS_BYTES_MAX)
    return read


def read_question(body: bytes) -> NodeQuestion:
    """Read the body of a 30905.

    Raises:
        BodyError: it is not one, or passes a bound.
    """
    _check_size("NodeQuestion", body)
    read = NodeQuestion.decode(body)
    _check_count("NodeQuestion", len(read.members))
    return read


def _check_size(what: str, body: bytes) -> None:
    if len(body) > limits.NODE_BEAT_BYTES_MAX:
        raise BodyError(what, f"has {len(body)} bytes, at most {limits.NODE_BEAT_BYTES_MAX} are allowed")


def _check_count(what: str, count: int) -> None:
    if count > limits.NODE_MEMBERS_MAX:
        raise BodyError(what, f"names {count} members, at most {limits.NODE_MEMBERS_MAX} are allowed")


def _check_text(what: str, text: str, bytes_max: int) -> None:
    if (problem := text_problem(text, bytes_max)) is not None:
        raise BodyError(what, f"a text {problem}")
