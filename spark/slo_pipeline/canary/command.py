"""`slo-pipeline canary`: options, signals, exit status.

Exit status: 0 ended by a signal with everything read and on the disk, 1 something was not written, 2 wrong
options. Acknowledged sends that no master could be asked about are named in the log and stay without a row.
"""

import argparse
import asyncio
import logging
import re
import signal
import sys
from pathlib import Path

from controller_core.access.request_signer import RequestSigner
from controller_core.command_line.log_level import follow_log_level
from controller_core.command_line.program import MisuseError
from controller_core.command_line.values import DURATION, HOSTS, SEMICOLONS, hosts, positive_duration
from controller_core.tls.certificates import Certificates, UnusableCertificatesError
from controller_core.tls.dialling import ClientTls, dial_in_tls, trusting
from slo_pipeline.canary.canary import Canary, CanarySettings
from slo_pipeline.canary.metrics import CanaryMetrics
from slo_pipeline.shell.http_port import ListenAddressError, parse_address, served
from slo_pipeline.writing.segment_store import SegmentStore
from slo_pipeline.writing.sink import SegmentSink

RATE_MAX = 1_000.0
QUEUES_MAX = 64
GAPS_PATH = "/v1/gaps"
_log = logging.getLogger(__name__)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `canary`."""
    parser.add_argument(
        "--name-servers",
        type=hosts,
        required=True,
        metavar=HOSTS,
        help=f"name servers of the brokers; {SEMICOLONS}",
    )
    parser.add_argument("--group", required=True, metavar="NAME", help="brokerName of the group to probe")
    parser.add_argument(
        "--topic", default="rmqha_canary", metavar="NAME", help="topic of its own (default: rmqha_canary)"
    )
    parser.add_argument(
        "--rate", type=float, default=20.0, metavar="N", help="sends per second (default: 20)"
    )
    parser.add_argument(
        "--queues", type=int, default=1, metavar="N", help="queues to make the topic with (default: 1)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="data directory for segments")
    parser.add_argument(
        "--segment-duration",
        type=positive_duration,
        default=60.0,
        metavar=DURATION,
        help="time of a segment (default: 60s)",
    )
    parser.add_argument(
        "--credentials",
        type=Path,
        metavar="DIR",
        help="directory with the files username and password of a user of the brokers",
    )
    parser.add_argument(
        "--cacert",
        type=Path,
        metavar="FILE",
        help="authorities of the brokers' certificates, PEM: dial in TLS first, and in plain TCP where "
        "TLS is not answered (default: plain TCP)",
    )
    parser.add_argument("--http", metavar="HOST:PORT", help="serve /metrics, /livez and /v1/gaps")


def run(args: argparse.Namespace) -> int:
    """Probe until SIGTERM or SIGINT, read the remaining messages, and return the exit status."""
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s", level="INFO"
    )
    follow_log_level()
    try:
        settings = _settings(args)
        trusted = None if args.cacert is None else trusting("--cacert", args.cacert)
        return asyncio.run(_probe(settings, args.out, args.http, trusted))
    except (ListenAddressError, UnusableCertificatesError, ValueError) as error:
        raise MisuseError(str(error)) from error


def _settings(args: argparse.Namespace) -> CanarySettings:
    if not 0 < args.rate <= RATE_MAX:
        raise ValueError(f"--rate {args.rate:g}: above 0, at most {RATE_MAX:g}")
    if not 1 <= args.queues <= QUEUES_MAX:
        raise ValueError(f"--queues {args.queues}: 1 to {QUEUES_MAX}")
    return CanarySettings(
        name_servers=[parse_address(one) for one in args.name_servers],
        group=args.group,
        topic=args.topic,
        rate=args.rate,
        queues=args.queues,
        segment_s=args.segment_duration,
        sign=None if args.credentials is None else RequestSigner(args.credentials),
    )


def writer_name(group: str) -> str:
    """Return the segment writer's name for a group's canary: safe as part of a file name."""
    return "canary-" + re.sub(r"[^A-Za-z0-9_]", "_", group)


async def _probe(settings: CanarySettings, out: Path, http: str | None, trusted: Certificates | None) -> int:
    if trusted is not None:
        dial_in_tls(ClientTls(trusted.context, plain_allowed=True))
    metrics = CanaryMetrics(settings.group)
    loop = asyncio.get_running_loop()
    with SegmentStore(out, writer_name(settings.group)) as store:
        sink = SegmentSink(store)
        canary = Canary(settings, sink, metrics)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, canary.stop)
        async with served(http, metrics.registry, {GAPS_PATH: canary.gaps}) as address:
            _log.info("probing %s, http %s", settings.group, address or "off")
            try:
                await canary.run()
            finally:
                flushed = await sink.flush()
        return 0 if flushed and not sink.refused else 1
