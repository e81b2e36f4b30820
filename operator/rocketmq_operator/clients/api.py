"""What the operator asks of Kubernetes, controllers, brokers, canaries and companions.

Small faces, so that tests can stand behind them.

Errors are of two kinds. `KubeConflictError` means that another client wrote first: read again.
`PeerUnavailableError` means that the peer did not answer or not as it should: try later. A missing object is
None, not an error.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from controller_core.access.signing import Credentials

Json = dict[str, Any]
EVENTS_MAX = 200
"""About one object. Kubernetes counts equal ones up and keeps each for an hour, so one has few."""


class PeerUnavailableError(Exception):
    """A peer did not answer, or sent an invalid answer; the text names the peer and the problem."""


class BusyError(PeerUnavailableError):
    """A peer asks to be left alone for `retry_after_s` seconds."""

    def __init__(self, problem: str, retry_after_s: float) -> None:
        super().__init__(problem)
        self.retry_after_s = retry_after_s


class KubeConflictError(PeerUnavailableError):
    """Somebody else wrote the object first."""


class RequestRefusedError(PeerUnavailableError):
    """A peer understood and refused; trying the same again is of no use until something changes."""


class KindUnknownError(PeerUnavailableError):
    """The API server does not know a kind: its definition is not installed."""


class RetryLaterError(PeerUnavailableError):
    """A peer understood, and cannot do it now; what hinders it may pass by itself."""


class KubeApi(Protocol):
    """The Kubernetes API, as far as the operator uses it. Every call raises `PeerUnavailableError`."""

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object, None if it does not exist."""
        ...

    async def find(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        """Return the objects of a kind that carry all these labels, each with kind and apiVersion."""
        ...

    async def events(self, kind: str, namespace: str, name: str) -> list[Json]:
        """Return the Events of `events.k8s.io/v1` about an object, at most `EVENTS_MAX`."""
        ...

    async def apply(self, body: Json) -> Json:
        """Write an object by server-side apply as our field manager; return it as it is then."""
        ...

    async def apply_status(self, body: Json) -> Json:
        """Write an object's status by server-side apply."""
        ...

    async def create(self, body: Json) -> Json:
        """Create an object; raise `KubeConflictError` if it exists."""
        ...

    async def replace(self, body: Json) -> Json:
        """Write an object over the version that it carries; raise `KubeConflictError` if that is old."""
        ...

    async def delete(self, kind: str, namespace: str, name: str, uid: str, *, by_force: bool = False) -> None:
        """Delete that very object; nothing happens if it is gone or another one has its name.

        `by_force`: a pod is gone at once, whether its node knows of it or not.
        """
        ...


class CanaryApi(Protocol):
    """The canaries of the measuring part, by HTTP."""

    async def gaps(self, host: str) -> Json:
        """Return what the canary at host:port knows of gaps and losses; raise `PeerUnavailableError`."""
        ...


class CompanionApi(Protocol):
    """The companions in the brokers' pods, by HTTP."""

    async def status(self, host: str) -> Json:
        """Return what the companion at host:port knows of its broker; raise `PeerUnavailableError`."""
        ...


class BrokerApi(Protocol):
    """Masters of broker groups, and name servers.

    Every call raises `PeerUnavailableError`, `RequestRefusedError` where there is an answer. With credentials
    a request is signed, for brokers with users.
    """

    async def read(
        self, address: str, kind: str, name: str, credentials: Credentials | None = None
    ) -> Json | None:
        """Return a Topic, ConsumerGroup or User as the broker at host:port has it, in Java's words.

        Return None if the broker does not have it.
        """
        ...

    async def write(
        self, address: str, kind: str, config: Json, credentials: Credentials | None = None
    ) -> None:
        """Make or change one; in `attributes` those that change, with `+` before the key."""
        ...

    async def delete(
        self, address: str, kind: str, name: str, credentials: Credentials | None = None
    ) -> None:
        """Have a broker forget one, with messages or offsets; a missing one is not an error."""
        ...

    async def signs_as(self, address: str, credentials: Credentials) -> str:
        """Return the user as which the broker at host:port signs its own requests, empty for none."""
        ...

    async def delete_route(self, address: str, cluster: str, topic: str) -> None:
        """Have the name server at host:port forget a topic's routes to the brokers of a cluster."""
        ...


class ControllerApi(Protocol):
    """The controllers of one cluster. Every call raises `PeerUnavailableError`."""

    async def nodes(self) -> list[Json | None]:
        """Return what each controller that there can be says of itself, in their order.

        A silent controller has None in the list.
        """
        ...

    async def members(self, node: int) -> Json:
        """Return the controllers' membership as one of them knows it.

        Only the leader knows how far each is.
        """
        ...

    async def change_members(self, action: str, member: str) -> None:
        """Add, promote or remove a controller.

        Raise `RequestRefusedError`, or `RetryLaterError` for a refusal that may pass by itself.
        """
        ...

    async def group(self, cluster: str, name: str) -> Json | None:
        """Return a broker group as committed now, None if it is not known."""
        ...

    async def failovers(self, cluster: str, name: str) -> list[Json]:
        """Return a group's changes of master, newest first."""
        ...

    async def designate(self, cluster: str, name: str, broker_id: int) -> None:
        """Make a member master; raise `RequestRefusedError` if the controllers would not."""
        ...

    def events(self) -> AsyncIterator[Json]:
        """Yield events from now on, until the stream ends."""
        ...
