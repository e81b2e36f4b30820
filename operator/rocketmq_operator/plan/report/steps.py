"""The plan of an SLOReport.

It makes the children what the spec says, once the volume with the measurements is known.
"""

from rocketmq_operator.api.names import EXECUTORS_LABEL, REPORTS_OF_LABEL
from rocketmq_operator.api.slo_report import Engine
from rocketmq_operator.plan.common.actions import ResourcePlan, Wait, child_steps
from rocketmq_operator.plan.common.claimed_names import names_of_report
from rocketmq_operator.plan.common.ownership import why_name_is_taken
from rocketmq_operator.plan.report.children import report_children
from rocketmq_operator.plan.report.observed import ObservedReport


def report_plan(observed: ObservedReport) -> ResourcePlan:
    """Return the plan for a report."""
    wait = _name_taken(observed) or _not_allowed(observed) or _no_source(observed) or _no_account(observed)
    if wait is not None:
        return ResourcePlan((), wait)
    holders = dict(observed.server.selector) if observed.server is not None else {}
    wanted = report_children(observed.owner, observed.spec, observed.claim, holders, observed.account)
    return child_steps(observed.owner, wanted, observed.children)


def _name_taken(observed: ObservedReport) -> Wait | None:
    claim = names_of_report(observed.owner.name)
    return why_name_is_taken(observed.owner, claim, observed.children, observed.name_lookup)


def _not_allowed(observed: ObservedReport) -> Wait | None:
    """Return which field names something that the chart does not allow, None without one."""
    shown = [(one.claim, one.account) for one in observed.servers]
    problem = observed.allowed.problem(observed.spec, shown)
    return None if problem is None else Wait("NotAllowed", problem)


def _no_source(observed: ObservedReport) -> Wait | None:
    """Return why the measurements are unavailable, None if their volume exists."""
    if not observed.claim:
        found = ", ".join(one.service for one in observed.servers)
        services = f"Services {found} each have" if found else "no Service of the namespace has"
        return Wait("NoSource", f"source.claimName is not given, and {services} the label {REPORTS_OF_LABEL}")
    if observed.claim not in observed.claims:
        return Wait("NoSource", f"PersistentVolumeClaim {observed.claim} does not exist")
    return None


def _no_account(observed: ObservedReport) -> Wait | None:
    """Return why no account may create executor pods, None if one may or the engine has none."""
    if observed.spec.engine is Engine.LOCAL or observed.account:
        return None
    return Wait(
        "NoAccount",
        f"engine is {Engine.KUBERNETES}, serviceAccountName is not given, and no Service of the namespace "
        f"has the label {EXECUTORS_LABEL}: install the chart with measure.report.executors=true",
    )
