"""Which pods belong to which broker group.

Problem: a Kubernetes Event names a pod, and a report knows groups; and a pod that an Event tells of may be
gone already. Shape: names are remembered beyond a pod's life, up to a bound, oldest forgotten first; a member
keeps its name when its pod is replaced. Never: guess an unknown value from a name.
"""

from dataclasses import dataclass

MEMBERS_MAX = 20_000


@dataclass(frozen=True, slots=True)
class Belonging:
    """Where something belongs; "" where that is not known."""

    cluster: str = ""
    group: str = ""


NOWHERE = Belonging()


class Members:
    """Pods of broker groups, those that are gone too."""

    def __init__(self, members_max: int = MEMBERS_MAX) -> None:
        self._members_max = members_max
        self._known: dict[tuple[str, str], Belonging] = {}
        self._groups: dict[tuple[str, str], Belonging] = {}

    def remember(self, namespace: str, pod: str, belonging: Belonging) -> None:
        """Take a pod's name; it is forgotten when MEMBERS_MAX newer ones are known."""
        self._groups[namespace, belonging.group] = belonging
        # A pod, the set that makes it, and its volume's claim: `data-orders-0` of `orders-0` of `orders`.
        for name in (pod, pod.rpartition("-")[0], f"data-{pod}"):
            self._known.pop((namespace, name), None)
            self._known[namespace, name] = belonging
        for book in (self._known, self._groups):
            while len(book) > self._members_max:
                del book[next(iter(book))]

    def of_pod(self, namespace: str, name: str) -> Belonging:
        """Return where a pod belongs."""
        return self._known.get((namespace, name), NOWHERE)

    def of_object(self, namespace: str, kind: str, name: str) -> Belonging:
        """Return where the object of an Event belongs."""
        match kind:
            case "BrokerGroup":
                return self._groups.get((namespace, name), Belonging("", name))
            case "RocketMQCluster":
                return Belonging(name, "")
            case _:
                return self._known.get((namespace, name), NOWHERE)
