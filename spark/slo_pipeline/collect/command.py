"""`slo-pipeline collect`: options, signals, exit status.

Exit status: 0 ended by a signal with everything on the disk, 1 something could not be written, 2 wrong
options or targets.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Iterable
from pathlib import Path

from controller_core.command_line.log_level import follow_log_level
from controller_core.command_line.program import MisuseError
from controller_core.command_line.values import DURATION, names, positive_duration
from slo_pipeline.collect.collector import Collector, CollectorSettings
from slo_pipeline.collect.kubernetes.api import ClusterApi, NoClusterError
from slo_pipeline.collect.kubernetes.cluster import NAMESPACES_MAX, ClusterSettings
from slo_pipeline.collect.scraping.metrics import CollectorMetrics
from slo_pipeline.collect.scraping.targets import TargetsError
from slo_pipeline.shell.http_port import ListenAddressError, served
from slo_pipeline.shell.running import until_signalled
from slo_pipeline.writing.segment_store import SegmentStore

INTERVAL_S_MIN = 0.1
SEGMENT_S_MIN = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `collect`."""
    parser.add_argument("--targets", type=Path, metavar="FILE", help="JSON file of targets")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="data directory for segments")
    parser.add_argument(
        "--interval",
        type=positive_duration,
        default=1.0,
        metavar=DURATION,
        help="between scrapes (default: 1s)",
    )
    parser.add_argument(
        "--segment-duration",
        type=positive_duration,
        default=60.0,
        metavar=DURATION,
        help="time of a segment (default: 60s); what a kill may cost in samples",
    )
    parser.add_argument("--http", metavar="HOST:PORT", help="serve /metrics and /livez")
    parser.add_argument(
        "--writer", default="collector", metavar="NAME", help="writer's name, one each in a directory"
    )
    _add_cluster_arguments(parser)


def _add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    cluster = parser.add_argument_group("Kubernetes", "with the rights of the pod's service account")
    cluster.add_argument(
        "--discover",
        action="extend",
        type=names,
        default=[],
        metavar="NAMESPACE[,...]",
        help="collect from these namespaces' controllers, brokers and log replicas; may be repeated",
    )
    cluster.add_argument("--cluster", default="", metavar="NAME", help="of these, only those of one cluster")
    cluster.add_argument(
        "--controllers-of",
        default="",
        metavar="NAME",
        help="with --cluster: also the controllers of this cluster, which that one uses",
    )
    cluster.add_argument(
        "--kubernetes-events",
        action="extend",
        type=names,
        default=[],
        metavar="NAMESPACE[,...]",
        help="copy these namespaces' Events; may be repeated",
    )
    cluster.add_argument(
        "--kubelet-metrics",
        action="extend",
        type=names,
        default=[],
        metavar="NAMESPACE[,...]",
        help="every 15 s, what containers of these namespaces' broker groups cost; may be repeated",
    )
    cluster.add_argument(
        "--kubelet-insecure-tls", action="store_true", help="take any certificate of a kubelet"
    )
    cluster.add_argument("--api-server", metavar="URL", help="default: the one of the pod's cluster")


def cluster_settings(args: argparse.Namespace) -> ClusterSettings | None:
    """Return the sources within Kubernetes; None if the options name none.

    Raises:
        NoClusterError: the options need a cluster and the process runs outside one, or they name too many
            namespaces.
    """
    namespaces = {*args.kubernetes_events, *args.kubelet_metrics, *args.discover}
    if not namespaces:
        return None
    if len(namespaces) > NAMESPACES_MAX:
        raise NoClusterError(f"{len(namespaces)} namespaces, at most {NAMESPACES_MAX} are served")
    return ClusterSettings(
        ClusterApi.of_pod(args.api_server, kubelet_certificates=not args.kubelet_insecure_tls),
        events=_once(args.kubernetes_events),
        kubelets=_once(args.kubelet_metrics),
        discover=_once(args.discover),
        cluster=args.cluster,
        controllers_of=args.controllers_of,
    )


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def run(args: argparse.Namespace) -> int:
    """Collect until SIGTERM or SIGINT, then write the remaining rows and return the exit status."""
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s", level="INFO"
    )
    follow_log_level()
    if args.interval < INTERVAL_S_MIN or args.segment_duration < SEGMENT_S_MIN:
        raise MisuseError(f"--interval from {INTERVAL_S_MIN} s, --segment-duration from {SEGMENT_S_MIN} s on")
    if args.targets is None and not args.discover:
        raise MisuseError("nothing to collect from (expected --targets or --discover)")
    try:
        return asyncio.run(_collect(args))
    except (TargetsError, ListenAddressError, NoClusterError) as error:
        raise MisuseError(str(error)) from error


async def _collect(args: argparse.Namespace) -> int:
    metrics = CollectorMetrics()
    settings = CollectorSettings(args.targets, args.interval, args.segment_duration, cluster_settings(args))
    with SegmentStore(args.out, args.writer) as store:
        collector = Collector(settings, store, metrics)
        await asyncio.to_thread(collector.recall)
        async with served(args.http, metrics.registry) as address:
            logging.getLogger(__name__).info("ready, http %s", address or "off")
            await until_signalled(collector.run())
        return 0 if await collector.flush() else 1
