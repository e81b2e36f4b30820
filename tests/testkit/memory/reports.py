"""An SLOReport in a Kubernetes in memory: the volume, the report server, and runs that end as a test says."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from rocketmq_operator.handlers.carry_out import PassContext
from rocketmq_operator.handlers.observing.clusters_and_groups import Environment
from rocketmq_operator.handlers.reconcile import reconcile
from rocketmq_operator.plan.report.allowed import AllowedInReports
from testkit.memory.brokers import MemoryBrokers
from testkit.memory.canaries import MemoryCanaries
from testkit.memory.companions import MemoryCompanions
from testkit.memory.controllers import MemoryControllers
from testkit.memory.kubernetes import MemoryKube

Json = dict[str, Any]
NAMESPACE = "shop"
REPORT = "weekly"
CLAIM = "demo-measure"
SERVER = "demo-report"
HOLDERS = {"app.kubernetes.io/instance": "demo", "app.kubernetes.io/component": "measure"}


class ReportWorld:
    """A namespace with the measuring part of the chart, one report, and an operator."""

    def __init__(self, spec: Json | None = None, *, measured: bool = True) -> None:
        self.kube = MemoryKube()
        self.now = datetime(2026, 11, 20, 12, tzinfo=UTC)
        self.allowed = AllowedInReports.of((), ["mine"], ["mine"])
        self._controllers = MemoryControllers(self.kube, "orders")
        if measured:
            self.put_claim(CLAIM)
            self.put_server(SERVER, CLAIM)
        self.write(spec or {})

    def write(self, spec: Json) -> None:
        """Write the report as a person does."""
        self.kube.put(
            {
                "apiVersion": "rocketmq-ha.dev/v1alpha1",
                "kind": "SLOReport",
                "metadata": {"name": REPORT, "namespace": NAMESPACE},
                "spec": {"schedule": "17 * * * *"} | spec,
            }
        )

    def put_claim(self, name: str) -> None:
        """Make a volume."""
        self.kube.put(_object("PersistentVolumeClaim", name, {}, spec={}))

    def put_server(self, name: str, claim: str, port: int = 80, *, account: str = "") -> None:
        """Make the Service of a report server; with an account for executors if its release has one."""
        labels = {"app.kubernetes.io/component": "report-server", "rocketmq-ha.dev/reports-of": claim}
        if account:
            labels["rocketmq-ha.dev/executors-account"] = account
        spec = {"selector": HOLDERS, "ports": [{"name": "http", "port": port}]}
        self.kube.put(_object("Service", name, labels, spec=spec))

    def put_run(self, name: str, *, status: Json, pod_status: Json | None = None) -> None:
        """Make a Job of the report's CronJob, and a pod of it if it is given a status."""
        labels = self.get("CronJob", REPORT)["spec"]["jobTemplate"]["metadata"]["labels"]
        self.kube.put(_object("Job", name, labels, status=status))
        if pod_status is not None:
            pod = _object("Pod", f"{name}-x", labels, status=pod_status)
            pod["metadata"]["ownerReferences"] = [{"uid": self.get("Job", name)["metadata"]["uid"]}]
            self.kube.put(pod)

    def put_success(self, name: str, message: str | None, *, prepared: str | None = None) -> None:
        """Make a run end well now; without a message its pod is gone.

        `prepared` is the message of its init container.
        """
        status = {
            "completionTime": _text(self.now),
            "conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": _text(self.now)}],
        }
        pod = None if message is None else _ended(self.now, 0, "Completed", message)
        if pod is not None and prepared is not None:
            pod |= _ended(self.now, 0, "Completed", prepared, prepares=True)
        self.put_run(name, status=status, pod_status=pod)

    def put_failure(
        self, name: str, message: str | None, reason: str = "Error", *, prepares: bool = False
    ) -> None:
        """Make a run fail now; without a message its pod is gone. `prepares`: in its init container."""
        failed = {
            "type": "Failed",
            "status": "True",
            "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit",
            "lastTransitionTime": _text(self.now),
        }
        pod = None if message is None else _ended(self.now, 2, reason, message, prepares=prepares)
        self.put_run(name, status={"conditions": [failed]}, pod_status=pod)

    async def one_pass(self) -> float | None:
        """Let a new operator process have a pass."""
        world = Environment(
            kube=self.kube,
            controllers_of=lambda *_: self._controllers,
            now=lambda: self.now,
            new_token=lambda: "token",
            canaries=MemoryCanaries(),
            companions=MemoryCompanions(),
            brokers=MemoryBrokers(),
            allowed_in_reports=self.allowed,
        )
        return await reconcile(PassContext(world), "SLOReport", NAMESPACE, REPORT)

    def advance(self, minutes: float) -> None:
        """Let time pass."""
        self.now += timedelta(minutes=minutes)

    def get(self, kind: str, name: str) -> Json:
        """Return an object."""
        return self.kube.objects[kind, NAMESPACE, name]

    def has(self, kind: str, name: str) -> bool:
        """Tell whether there is such an object."""
        return (kind, NAMESPACE, name) in self.kube.objects

    @property
    def status(self) -> Json:
        """The report's status as it is now."""
        return copy.deepcopy(self.get("SLOReport", REPORT).get("status", {}))

    def condition(self, type_: str) -> tuple[str, str, str]:
        """Return status, reason and message of a condition."""
        found = next(one for one in self.status["conditions"] if one["type"] == type_)
        return found["status"], found["reason"], found["message"]

    def pod(self) -> Json:
        """Return the spec of the pod that a run would have."""
        template: Json = self.get("CronJob", REPORT)["spec"]["jobTemplate"]["spec"]["template"]
        pod: Json = template["spec"]
        return pod

    def events(self) -> list[str]:
        """Return the reasons of all Events."""
        return [value["reason"] for (kind, _, _), value in self.kube.objects.items() if kind == "Event"]


def _object(kind: str, name: str, labels: dict[str, str], **rest: Json) -> Json:
    metadata: Json = {"name": name, "namespace": NAMESPACE, "labels": labels}
    return {"kind": kind, "metadata": metadata, **rest}


def _ended(at: datetime, exit_code: int, reason: str, message: str, *, prepares: bool = False) -> Json:
    end = {"exitCode": exit_code, "reason": reason, "message": message, "finishedAt": _text(at)}
    if prepares:
        return {"initContainerStatuses": [{"name": "daily", "state": {"terminated": end}}]}
    return {"containerStatuses": [{"name": "report", "state": {"terminated": end}}]}


def _text(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
