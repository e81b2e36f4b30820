"""A Kubernetes in memory for the operator's tests: objects, server-side apply, and the controllers.

What it does as the real one: empty lists are not kept; server-side apply removes what the same manager no
longer names; Services get a ClusterIP; a StatefulSet makes pods and claims, replaces none (`OnDelete`),
removes the last first, with its claims if its spec says so; a pod that is deleted comes back in the newest
revision; owned objects go with their owner, or at once where it is gone; claims stay or go as their set says;
an object with finalizers goes after the last of them; pods and volumes on a lost node stay there. It does
not: validate, schedule, take time, make a Deployment's pods. A pod, or all of a Deployment, is ready at once
unless its name is in `unready`, a Service has its address unless it is in `without_address`. Claims of a
StatefulSet cannot change. A set without `OnDelete` replaces its pods as Kubernetes does: from the last, and
stops at one that is not ready.

Every write is counted and may end in `CrashError` *after* it was done: what a
process killed there leaves behind.
"""

import copy
import hashlib
import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rocketmq_operator.api.names import FIELD_MANAGER
from rocketmq_operator.clients.api import KubeConflictError, PeerUnavailableError
from testkit.memory.managed_fields import fields_of, lay_over, without_empty_lists
from testkit.memory.pod_faults import PodFault, deployment_status, failed_create, pod_status
from testkit.memory.refused_writes import refuse_other_claims, refuse_other_families
from testkit.memory.service_addresses import V4_ONLY, give_addresses, pod_addresses

Json = dict[str, Any]
Key = tuple[str, str, str]
_REVISION = "controller-revision-hash"
_VOLUME_ELSEWHERE = "0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity."


class CrashError(BaseException):
    """The process was killed here. Not an Exception: no handler of the operator may survive it."""


class MemoryKube:
    """The API and its controllers.

    Attributes:
        objects: by kind, namespace and name.
        writes: the writes, in words.
        crash_after: the number of the write that ends in `CrashError`; None for never.
        families: of the addresses that Services and pods can have, the default first.
        births: how often each pod was made.
        faults: what breaks a pod, by its name and the revision that breaks it; an empty
            one is the next that is made.
        starting: names of pods that were made since the last `started`; None where a pod starts at once.
        may_be_ready: says of a name whether its process would call itself ready.
        forbidden: why the API server refuses a pod, by its name, or the pods of a Deployment, by that one's.
        events_about: Events by kind and name of what they are about.
        asked_events: objects whose Events a caller requested.
        webhook: changes each object that is applied, within the write of whoever applies it.
    """

    def __init__(self) -> None:
        self.objects: dict[Key, Json] = {}
        self.writes: list[str] = []
        self.crash_after: int | None = None
        self.families: tuple[str, ...] = V4_ONLY
        self.births: dict[str, int] = {}
        self.unready: set[str] = set()
        self.without_address: set[str] = set()
        self.silent: set[str] = set()
        self.faults: dict[tuple[str, str], PodFault] = {}
        self.starting: set[str] | None = None
        self.may_be_ready: Callable[[str], bool] = lambda _: True
        self._lost_claims: dict[str, str] = {}
        self._stranded: dict[str, str] = {}
        self.forbidden: dict[str, str] = {}
        self.events_about: dict[tuple[str, str], list[Json]] = {}
        self.asked_events: list[tuple[str, str]] = []
        self.webhook: Callable[[Json], None] | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.on_wrote: Callable[[], None] = lambda: None
        self._applied: dict[tuple[str, Key], Json] = {}
        self._numbers = itertools.count(1)

    async def get(self, kind: str, namespace: str, name: str) -> Json | None:
        """Return an object, None if it does not exist."""
        return copy.deepcopy(self.objects.get((kind, namespace, name)))

    async def find(self, kind: str, namespace: str, labels: Mapping[str, str]) -> list[Json]:
        """Return the objects of a kind that carry all these labels."""
        return [
            copy.deepcopy(value)
            for (its_kind, its_namespace, _), value in sorted(self.objects.items())
            if (its_kind, its_namespace) == (kind, namespace)
            and labels.items() <= value["metadata"].get("labels", {}).items()
        ]

    async def events(self, kind: str, namespace: str, name: str) -> list[Json]:
        """Return what Kubernetes' controllers say of an object."""
        self.asked_events.append((kind, name))
        return copy.deepcopy(self.events_about.get((kind, name), []))

    async def apply(self, body: Json) -> Json:
        """Write an object by server-side apply; a version in it must be the live one's."""
        metadata = body["metadata"]
        version = metadata.get("resourceVersion")
        live = self.objects.get((body["kind"], metadata["namespace"], metadata["name"]))
        if version is not None and (live is None or live["metadata"]["resourceVersion"] != version):
            raise KubeConflictError(f"{metadata['name']} is not of version {version} any more")
        return self._write("apply", body, "spec")

    async def apply_status(self, body: Json) -> Json:
        """Write an object's status by server-side apply; raise `PeerUnavailableError` if it is gone."""
        metadata = body["metadata"]
        if (body["kind"], metadata["namespace"], metadata["name"]) not in self.objects:
            raise PeerUnavailableError(f"{body['kind']} {metadata['name']} not found")
        return self._write("status", body, "status")

    async def create(self, body: Json) -> Json:
        """Create an object."""
        return self._write("create", body, "spec")

    async def replace(self, body: Json) -> Json:
        """Write an object over another."""
        return self._write("replace", body, "spec")

    async def annotate(
        self, kind: str, namespace: str, name: str, annotations: Mapping[str, str | None]
    ) -> Json:
        """Write these annotations; None removes one."""
        kept = self.objects[kind, namespace, name]["metadata"].setdefault("annotations", {})
        for key, value in annotations.items():
            if value is None:
                kept.pop(key, None)
            else:
                kept[key] = value
        self.settle()
        return copy.deepcopy(self.objects[kind, namespace, name])

    async def delete(self, kind: str, namespace: str, name: str, uid: str, *, by_force: bool = False) -> None:
        """Delete that very object; a pod on a silent node goes by force only."""
        live = self.objects.get((kind, namespace, name))
        if live is None or (uid and live["metadata"]["uid"] != uid):
            return
        if name in self.silent and not by_force:
            return
        self.silent.discard(name)
        self.remove(kind, namespace, name)
        self.wrote(f"delete {kind} {name}")

    def remove(self, kind: str, namespace: str, name: str, at: str = "2026-01-01T00:00:00Z") -> None:
        """Delete an object and what it owns, as somebody else would.

        An object with finalizers is only marked, with `at`.
        """
        live = self.objects[kind, namespace, name]
        if live["metadata"].get("finalizers"):
            live["metadata"].setdefault("deletionTimestamp", at)
            return
        del self.objects[kind, namespace, name]
        policy = live.get("spec", {}).get("persistentVolumeClaimRetentionPolicy", {})
        if kind == "StatefulSet" and policy.get("whenDeleted") == "Delete":
            for claim in self._claims_of(namespace, name, live):
                self.objects.pop(claim, None)
        self.settle()

    def lose_node(self, namespace: str, pod: str, at: str) -> None:
        """Let a pod's node be silent from `at` on.

        The pod has a deletion timestamp but stays, and no other node has its volume.
        """
        self.objects["Pod", namespace, pod]["metadata"]["deletionTimestamp"] = at
        self.silent.add(pod)
        for (kind, _, name), value in self.objects.items():
            if kind == "PersistentVolumeClaim" and name == f"data-{pod}":
                self._lost_claims[value["metadata"]["uid"]] = at
        self.settle()

    def break_pods(self, namespace: str, names: Iterable[str], fault: PodFault) -> None:
        """Break pods for as long as they are of the revision that they have now."""
        for name in names:
            pod = self.objects["Pod", namespace, name]
            self.faults[name, pod["metadata"]["labels"][_REVISION]] = fault
        self.settle()

    def started(self) -> None:
        """Let every pod that was made lately have started."""
        if self.starting is not None:
            self.starting.clear()
        self.settle()

    def put(self, body: Json) -> None:
        """Write an object as a person does: spec and all; the generation moves if the spec does."""
        self._store("person", body, "spec")
        self.settle()

    def wrote(self, words: str) -> None:
        """Count a write; the place where a crash happens."""
        self.writes.append(words)
        self.on_wrote()
        if self.crash_after is not None and len(self.writes) == self.crash_after:
            raise CrashError(words)

    def pods(self) -> list[Json]:
        """Return all pods."""
        return [value for (kind, _, _), value in sorted(self.objects.items()) if kind == "Pod"]

    def _write(self, verb: str, body: Json, part: str) -> Json:
        stored = self._store(f"operator/{part}", body, part)
        if verb == "apply" and self.webhook is not None:
            self.webhook(stored)
            owned = {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields_of(body)}
            stored["metadata"]["managedFields"] = [owned]
        self.settle()
        self.wrote(f"{verb} {body['kind']} {body['metadata']['name']}")
        return copy.deepcopy(stored)

    def _store(self, manager: str, body: Json, part: str) -> Json:
        body = copy.deepcopy(body) if part == "status" else without_empty_lists(body)
        if body["kind"] == "Service" and part == "spec":
            refuse_other_families(body, self.families)
        key = (body["kind"], body["metadata"]["namespace"], body["metadata"]["name"])
        live = self.objects.setdefault(
            key, {"metadata": {"uid": f"uid-{next(self._numbers)}", "generation": 0}}
        )
        spec_before = copy.deepcopy(live.get("spec"))
        if body["kind"] == "StatefulSet" and spec_before is not None:
            refuse_other_claims(spec_before, body["spec"])
        lay_over(live, self._applied.get((manager, key), {}), body)
        self._applied[manager, key] = body
        live["metadata"]["resourceVersion"] = str(next(self._numbers))
        if part == "spec" and live.get("spec") != spec_before:
            live["metadata"]["generation"] += 1
        if "deletionTimestamp" in live["metadata"] and not live["metadata"].get("finalizers"):
            self.remove(*key)
        return live

    def settle(self) -> None:
        """Let Kubernetes' own controllers act until nothing changes."""
        self._collect()
        for (kind, namespace, name), value in sorted(self.objects.items()):
            if kind == "Service" and name not in self.without_address:
                place = _number(namespace + name) % 200, _number(name) % 200 + 1
                give_addresses(value, self.families, place)
            if kind == "StatefulSet":
                self._settle_set(namespace, name, value)
            if kind == "Deployment":
                down = sum(pod.startswith(f"{name}-") for pod in self.unready)
                ready = 0 if name in self.unready else value["spec"]["replicas"] - down
                rolled = {"observedGeneration": value["metadata"]["generation"]}
                rolled |= dict.fromkeys(("replicas", "updatedReplicas"), value["spec"]["replicas"])
                wanted = value["spec"]["replicas"]
                value["status"] = rolled | deployment_status(name, wanted, ready, self.forbidden.get(name))
        self.on_change()

    def _collect(self) -> None:
        """Delete the objects whose owners are all gone, also those created after their owner went."""
        living = {value["metadata"]["uid"] for value in self.objects.values()}
        for key, value in list(self.objects.items()):
            owners = value["metadata"].get("ownerReferences", [])
            if owners and key in self.objects and not any(one["uid"] in living for one in owners):
                self.remove(*key)

    def _claims_of(self, namespace: str, name: str, value: Json) -> list[Key]:
        return [
            ("PersistentVolumeClaim", namespace, f"{template['metadata']['name']}-{name}-{ordinal}")
            for template in value["spec"].get("volumeClaimTemplates", [])
            for ordinal in range(value["spec"]["replicas"])
        ]

    def _settle_set(self, namespace: str, name: str, value: Json) -> None:
        spec = value["spec"]
        revision = f"{name}-{_number(json.dumps(spec['template'], sort_keys=True))}"
        wanted = {f"{name}-{ordinal}" for ordinal in range(spec["replicas"])}
        mine = {
            key[2]
            for key, pod in self.objects.items()
            if key[0] == "Pod"
            and value["metadata"]["uid"] in [one["uid"] for one in pod["metadata"].get("ownerReferences", [])]
        }
        for pod in mine - wanted:
            del self.objects["Pod", namespace, pod]
            policy = spec.get("persistentVolumeClaimRetentionPolicy", {})
            for template in (
                spec.get("volumeClaimTemplates", []) if policy.get("whenScaled") == "Delete" else []
            ):
                self.objects.pop(
                    ("PersistentVolumeClaim", namespace, f"{template['metadata']['name']}-{pod}"), None
                )
        for pod in sorted(wanted - mine):
            if pod in self.forbidden:
                self.events_about["StatefulSet", name] = [failed_create(name, pod, self.forbidden[pod])]
                wanted.discard(pod)
            else:
                self._make_pod(namespace, pod, value, revision)
        for pod in wanted:
            self._settle_pod(namespace, pod)
        if spec.get("updateStrategy", {}).get("type") != "OnDelete":
            self._roll(namespace, sorted(wanted, reverse=True), value, revision)
        value["status"] = {
            "observedGeneration": value["metadata"]["generation"],
            "replicas": len(wanted),
            "readyReplicas": sum(is_ready(self.objects["Pod", namespace, pod]) for pod in wanted),
            "updatedReplicas": sum(
                self.objects["Pod", namespace, pod]["metadata"]["labels"][_REVISION] == revision
                for pod in wanted
            ),
            "updateRevision": revision,
        }

    def _roll(self, namespace: str, members: Sequence[str], owner: Json, revision: str) -> None:
        """Replace pods of an older revision, the last first, up to the first that is not ready."""
        for name in members:
            if self.objects["Pod", namespace, name]["metadata"]["labels"][_REVISION] != revision:
                del self.objects["Pod", namespace, name]
                self._make_pod(namespace, name, owner, revision)
                self._settle_pod(namespace, name)
            if not is_ready(self.objects["Pod", namespace, name]):
                return

    def _settle_pod(self, namespace: str, name: str) -> None:
        pod = self.objects["Pod", namespace, name]
        status = pod_status(pod, self._fault_of(pod), ready=self._is_ready(pod))
        status["conditions"] += self._stranding(namespace, pod)
        pod["status"] |= status

    def _fault_of(self, pod: Json) -> PodFault | None:
        metadata = pod["metadata"]
        return self.faults.get((metadata["name"], metadata["labels"].get(_REVISION, "")))

    def _is_ready(self, pod: Json) -> bool:
        name = pod["metadata"]["name"]
        return name not in self.unready and self.is_running(pod) and self.may_be_ready(name)

    def is_running(self, pod: Json) -> bool:
        """Tell whether a node that answers has the pod, and its process does its work."""
        name = pod["metadata"]["name"]
        is_at_work = self._fault_of(pod) is None and name not in (self.starting or ())
        return is_at_work and name not in self.silent and pod["metadata"]["uid"] not in self._stranded

    def _stranding(self, namespace: str, pod: Json) -> list[Json]:
        """Return what the scheduler says of a pod whose volume is on a lost node."""
        since = self._stranded.get(pod["metadata"]["uid"])
        if since is None:
            return []
        name = pod["metadata"]["name"]
        has_claim = ("PersistentVolumeClaim", namespace, f"data-{name}") in self.objects
        words = _VOLUME_ELSEWHERE if has_claim else f'persistentvolumeclaim "data-{name}" not found'
        return [{"type": "PodScheduled", "status": "False", "message": words, "lastTransitionTime": since}]

    def _make_pod(self, namespace: str, name: str, owner: Json, revision: str) -> None:
        self.births[name] = self.births.get(name, 0) + 1
        if self.starting is not None:
            self.starting.add(name)
        if (name, "") in self.faults:
            self.faults[name, revision] = self.faults.pop((name, ""))
        number = next(self._numbers)
        self.objects["Pod", namespace, name] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{number}",
                "labels": owner["spec"]["template"]["metadata"]["labels"] | {_REVISION: revision},
                "ownerReferences": [{"uid": owner["metadata"]["uid"]}],
            },
            "spec": owner["spec"]["template"].get("spec", {}) | {"nodeName": f"node-of-{name}"},
            "status": pod_addresses(self.families, _number(name) % 200, self.births[name]),
        }
        for template in owner["spec"].get("volumeClaimTemplates", []):
            claim = f"{template['metadata']['name']}-{name}"
            self.objects.setdefault(
                ("PersistentVolumeClaim", namespace, claim),
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {
                        "name": claim,
                        "namespace": namespace,
                        "uid": f"uid-{next(self._numbers)}",
                        "generation": 0,
                        "labels": dict(template["metadata"].get("labels", {})),
                        "annotations": dict(template["metadata"].get("annotations", {})),
                    },
                    "spec": copy.deepcopy(template["spec"]),
                },
            )
            found = self.objects["PersistentVolumeClaim", namespace, claim]
            if since := self._lost_claims.get(found["metadata"]["uid"]):
                self._stranded[self.objects["Pod", namespace, name]["metadata"]["uid"]] = since


def is_ready(pod: Json) -> bool:
    """Tell whether a pod says that it is ready."""
    return {"type": "Ready", "status": "True"} in pod["status"]["conditions"]


def _number(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)
