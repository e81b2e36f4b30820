"""Look at everything that the plan of an SLOReport needs, once.

The lookup of children is by name and not by label, because it must also find objects of other owners with
these names.
"""

import asyncio
from typing import Final

from rocketmq_operator.api.names import COMPONENT_LABEL, REPORT_KIND, REPORT_LABEL, REPORT_SERVER
from rocketmq_operator.api.slo_report import SLOReportSpec, SLOReportStatus
from rocketmq_operator.handlers.observing.clusters_and_groups import (
    Environment,
    get_unless_deleted,
    owner_of,
    parse_spec,
)
from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.objects import by_key
from rocketmq_operator.plan.common.report_servers import parse_report_servers
from rocketmq_operator.plan.report.observed import ObservedReport, parse_runs, run_troubles

_CLAIM: Final = "PersistentVolumeClaim"


async def observe_report(environment: Environment, namespace: str, name: str) -> ObservedReport | None:
    """Return the observed state of a report, None if it is gone or going.

    Raises:
        InvalidSpecError: its spec breaks a rule.
        PeerUnavailableError: the API server does not answer.
    """
    resource = await get_unless_deleted(environment, REPORT_KIND.kind, namespace, name)
    if resource is None:
        return None
    spec = parse_spec(SLOReportSpec, resource)
    cron_job, config, jobs, pods, services = await asyncio.gather(
        environment.kube.get("CronJob", namespace, name),
        environment.kube.get("ConfigMap", namespace, names.report_objectives(name)),
        environment.kube.find("Job", namespace, {REPORT_LABEL: name}),
        environment.kube.find("Pod", namespace, {REPORT_LABEL: name}),
        environment.kube.find("Service", namespace, {COMPONENT_LABEL: REPORT_SERVER}),
    )
    servers = parse_report_servers(services)
    meant = [spec.source.claim_name] if spec.source.claim_name else [one.claim for one in servers]
    claims = await asyncio.gather(*(environment.kube.get(_CLAIM, namespace, claim) for claim in meant))
    newest, running = parse_runs(jobs, pods)
    return ObservedReport(
        now=environment.now(),
        owner=owner_of(resource, REPORT_KIND.kind),
        generation=resource["metadata"].get("generation", 0),
        spec=spec,
        status=SLOReportStatus.model_validate(resource.get("status") or {}),
        children=by_key(one for one in (cron_job, config) if one is not None),
        servers=servers,
        claims=frozenset(name for name, claim in zip(meant, claims, strict=True) if claim is not None),
        newest=newest,
        running=running,
        troubles=run_troubles(jobs, pods),
        allowed=environment.allowed_in_reports,
    )
