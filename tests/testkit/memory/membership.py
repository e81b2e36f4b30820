"""The membership of controllers in memory, for the operator's tests.

The voters follow from the requests and from volumes of a `MemoryKube`.

A store is a volume: its uid is the store's incarnation. All pods of the first StatefulSet found a cluster.
One that comes under a member's name with another volume never gets an answer; one that is added has the log,
and has caught up unless it is in `behind`. What the real controllers refuse is refused here: a change without
a living majority, a store with a log, an unknown name.
"""

from typing import Any

from rocketmq_operator.clients.api import RequestRefusedError, RetryLaterError
from testkit.memory.kubernetes import MemoryKube

Json = dict[str, Any]
NAMESPACE = "shop"
SET = "main-controller"
COUNT_MAX = 5


class MemoryMembership:
    """Who the controllers are.

    Attributes:
        voters: store by name.
        learners: the same.
        behind: entries that a learner lacks, by name; 0 where nothing is said.
        down: names whose process does not answer.
        silent: names that do not answer the operator while the others hear them.
        changed_settings: by name, what mqadmin changed in a controller.
        leader: by name, empty while no election can succeed.
        changes: the changes made, in words.
    """

    def __init__(self, kube: MemoryKube) -> None:
        self.voters: dict[str, str] = {}
        self.learners: dict[str, str] = {}
        self.behind: dict[str, int] = {}
        self.down: set[str] = set()
        self.silent: set[str] = set()
        self.changed_settings: dict[str, dict[str, str]] = {}
        self.leader = ""
        self.term = 0
        self.changes: list[str] = []
        self._with_log: set[str] = set()
        self._kube = kube

    def notice(self) -> None:
        """Found a cluster, or elect another leader where the former one is gone."""
        stores = self._stores()
        wanted = self._kube.objects.get(("StatefulSet", NAMESPACE, SET), {}).get("spec", {}).get("replicas")
        if not self.voters and wanted and len(stores) == wanted:
            self.voters = dict(stores)
            self._with_log |= set(stores.values())
        living = [name for name in sorted(self.voters) if self._is_heard(name)]
        if 2 * len(living) <= len(self.voters):
            self.leader = ""
        elif self.leader not in living:
            self.leader = living[0]
            self.term += 1

    def nodes(self) -> list[Json | None]:
        """Return what each controller says of itself."""
        return [self._node(f"n{ordinal}") for ordinal in range(COUNT_MAX)]

    def members(self) -> Json:
        """Return what the leader says of all."""
        listed = sorted((self.voters | self.learners).items())
        return {
            "leader": self.leader or None,
            "members": [self._member(name, store) for name, store in listed],
        }

    def change(self, action: str, member: str) -> None:
        """Add, promote or remove.

        Raises:
            RequestRefusedError: it makes no sense.
            RetryLaterError: too few live, or one does not answer, or is behind.
        """
        name, _, address = member.partition("-")
        if not self.leader:
            raise RetryLaterError("nobody leads now")
        if action == "add":
            self._add(name, address)
        elif action == "promote":
            self._promote(name)
        else:
            self._remove(name)
        self.changes.append(f"{action} {name}")
        self.notice()
        self._kube.wrote(f"{action} {name}")

    def _add(self, name: str, address: str) -> None:
        store = self._stores().get(name)
        pod = f"{SET}-{name[1:]}"
        if address != f"{pod}.{SET}.{NAMESPACE}.svc:9878":
            raise RequestRefusedError(f"{address!r} is not where {name} is")
        if name in self.voters or name in self.learners:
            raise RequestRefusedError(f"{name} is a member already; remove it first")
        if store is None:
            raise RetryLaterError(f"{name} does not answer; start it first")
        if store in self._with_log:
            raise RequestRefusedError(f"{name} has a log; start it with an empty store")
        self.learners[name] = store
        self._with_log.add(store)

    def _promote(self, name: str) -> None:
        if name not in self.learners:
            raise RequestRefusedError(f"{name} is no learner")
        if self.behind.get(name, 0) > 1_000 or not self._is_heard(name):
            raise RetryLaterError(f"{name} is behind")
        self.voters[name] = self.learners.pop(name)

    def _remove(self, name: str) -> None:
        if name not in self.voters and name not in self.learners:
            raise RequestRefusedError(f"{name} is not a member")
        left = [voter for voter in self.voters if voter != name]
        if not left:
            raise RequestRefusedError(f"{name} is the last voter")
        for voters in (list(self.voters), left):
            if 2 * sum(map(self._is_heard, voters)) <= len(voters):
                raise RetryLaterError("would leave no majority")
        self.voters.pop(name, None)
        self.learners.pop(name, None)

    def _stores(self) -> dict[str, str]:
        """Return the store of each controller that runs."""
        found = {}
        for pod in self._kube.pods():
            name = pod["metadata"]["name"]
            claim = self._kube.objects.get(("PersistentVolumeClaim", NAMESPACE, f"data-{name}"))
            controller = f"n{name.rpartition('-')[2]}"
            if claim is None or controller in self.down or not self._kube.is_running(pod):
                continue
            if name.startswith(f"{SET}-"):
                found[controller] = claim["metadata"]["uid"]
        return found

    def _is_heard(self, name: str) -> bool:
        return self._stores().get(name) == (self.voters | self.learners)[name]

    def _node(self, name: str) -> Json | None:
        store = self._stores().get(name)
        if store is None or name in self.silent:
            return None
        address = f"{SET}-{self.leader[1:]}.{SET}.{NAMESPACE}.svc:9878" if self.leader else None
        takes_part = (self.voters | self.learners).get(name) == store
        return {
            "role": "leader" if name == self.leader else "follower",
            "term": self.term,
            "leader_address": address if takes_part else None,
            "voters": sorted(self.voters) if store in self._with_log else [],
            "incarnation": store,
            "changed_settings": self.changed_settings.get(name, {}),
        }

    def _member(self, name: str, store: str) -> Json:
        heard = self._is_heard(name)
        return {
            "name": name,
            "role": "voter" if name in self.voters else "learner",
            "incarnation": store,
            "active": heard,
            "match_index": 10 if heard else 0,
            "lag_entries": self.behind.get(name, 0),
        }
