"""The Services of report servers, which groups and reports link to."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rocketmq_operator.api.names import EXECUTORS_LABEL, REPORTS_OF_LABEL
from rocketmq_operator.plan.common.objects import Live

_HTTP_PORT: Final = 80


@dataclass(frozen=True, slots=True)
class ReportServer:
    """A report server's Service: what it shows, and what else a report must know of its release.

    Attributes:
        claim: the volume that it shows.
        port: where it answers.
        selector: labels of the pods that hold the volume.
        account: creates pods of executors; empty if the release lacks it.
    """

    service: str
    claim: str
    port: int
    selector: tuple[tuple[str, str], ...]
    account: str = ""

    def url(self, namespace: str) -> str:
        """Return where it answers, for those inside the cluster, without a path."""
        port = "" if self.port == _HTTP_PORT else f":{self.port}"
        return f"http://{self.service}.{namespace}.svc{port}"


def _parse_report_server(service: Live) -> ReportServer | None:
    """Read the Service of a report server, None where it says too little to be one."""
    metadata, spec = service["metadata"], service.get("spec", {})
    labels = metadata.get("labels", {})
    claim, account = labels.get(REPORTS_OF_LABEL, ""), labels.get(EXECUTORS_LABEL, "")
    ports, selector = spec.get("ports") or [], spec.get("selector") or {}
    if not claim or not ports or not selector:
        return None
    return ReportServer(
        metadata["name"], claim, int(ports[0]["port"]), tuple(sorted(selector.items())), account
    )


def parse_report_servers(services: Iterable[Live]) -> tuple[ReportServer, ...]:
    """Return those Services that are report servers."""
    return tuple(server for service in services if (server := _parse_report_server(service)) is not None)
