"""The files of a release's measuring part: awaited, put aside; the canary's sends come from its pod.

Times are UTC microseconds, as in the tables. Nothing here uses the pipeline's transforms.
"""

import io
import json
import tarfile
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from testkit.kube.kubectl import Cluster, Json, until
from testkit.kube.reports import MEASURE, Row, parquet_rows

US_PER_S: Final = 1_000_000
_FETCHED_WITHIN_S: Final = 120.0
_READ_WITHIN_S: Final = 90.0
_WRITTEN_WITHIN_S: Final = 60.0
_CANARY: Final = "services/rocketmq-ha-canary-0:http/proxy/v1/gaps"


async def until_read(cluster: Cluster, after_ns: int) -> None:
    """Wait until the canary has read back whatever was acknowledged before a time."""

    async def holds() -> bool:
        path = f"/api/v1/namespaces/{cluster.namespace}/{_CANARY}"
        told: Json = json.loads(await cluster.text(path))
        return (
            told["until"] is not None and datetime.fromisoformat(told["until"]).timestamp() > after_ns / 1e9
        )

    await until("the canary has read everything back", holds, _READ_WITHIN_S, poll_s=1.0)


async def until_written(cluster: Cluster, after_ns: int) -> None:
    """Wait until canary and collector have each written a segment after a time.

    Then all that they saw before it is on disk.
    """

    async def holds() -> bool:
        found = f"find /data/segments -name '*.parquet' -newermt @{after_ns / 1e9:.6f}"
        names = (await cluster.shell(MEASURE, "server", found)).decode()
        return all(f"/{kind}/" in names for kind in ("probe_ops", "samples"))

    await until("the measurements are on disk", holds, _WRITTEN_WITHIN_S, poll_s=1.0)


async def put_aside(cluster: Cluster, folder: str) -> None:
    """Copy all segments to a folder of /data.

    Canary and collector go on; the copy does not contain later rows.
    """
    await cluster.shell(MEASURE, "server", f"cp -r /data/segments /data/{folder}")


async def sends(cluster: Cluster, folder: str) -> list[Row]:
    """Return the canary's sends of a folder of /data in the order in which they were intended."""
    script = f"cd /data/{folder} && tar -cf - probe_ops"
    packed = await cluster.shell(MEASURE, "server", script, timeout_s=_FETCHED_WITHIN_S)
    found: list[Row] = []
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".parquet") else None
            if file is not None:
                found += parquet_rows(file.read())
    return sorted((row for row in found if row["op"] == "send"), key=lambda row: int(row["intended_ts"]))


def bad_seconds(found: Iterable[Row], start_us: int, end_us: int) -> list[int]:
    """Return the seconds of [start, end) in which a send was intended that was not acknowledged."""
    failed = {int(row["intended_ts"]) // US_PER_S * US_PER_S for row in found if row["result"] != "ok"}
    return sorted(second for second in failed if start_us <= second < end_us)
