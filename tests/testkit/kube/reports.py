"""An SLOReport on the cluster: changed, run by hand; its status, its page's address and its tables."""

import io
import json
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from testkit.kube.kubectl import Cluster, Json, until

MEASURE: Final = "deployment/rocketmq-ha-measure"
REPORTED_WITHIN_S: Final = 420.0
_ACTED_ON_WITHIN_S: Final = 60.0
Row = dict[str, Any]


class KubeReport:
    """One SLOReport."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        """Take where it is and its name."""
        self._cluster: Final = cluster
        self._name: Final = name

    async def status(self) -> Json:
        """Return its status."""
        status: Json = (await self._cluster.get("sloreport", self._name)).get("status", {})
        return status

    async def run_now(self, job: str, timeout_s: float = REPORTED_WITHIN_S) -> Json:
        """Start a run by hand, and return what the status says once it tells of that run.

        A job of that name is from an earlier try of the same test, and goes first.
        """
        await self._cluster.kubectl("delete", "job", job, "--ignore-not-found")
        await self._cluster.kubectl("create", "job", job, f"--from=cronjob/{self._name}")

        async def told() -> bool:
            return (await self.status()).get("lastJob") == job

        await until(f"the report tells of {job}", told, timeout_s, poll_s=1.0)
        return await self.status()

    async def patch(self, spec: Json) -> None:
        """Change its spec, and wait until that is acted on."""
        text = json.dumps({"spec": spec})
        await self._cluster.kubectl("patch", "sloreport", self._name, "--type=merge", f"--patch={text}")
        await self.until_acted_on()

    async def until_acted_on(self) -> None:
        """Wait until the operator has made what the spec says."""

        async def holds() -> bool:
            report = await self._cluster.get("sloreport", self._name)
            acted: int = report.get("status", {}).get("observedGeneration", 0)
            return acted == int(report["metadata"]["generation"])

        await until(f"report {self._name} is acted on", holds, _ACTED_ON_WITHIN_S)

    async def table(self, name: str) -> list[Row]:
        """Return the rows of a table of its last run; times are UTC microseconds."""
        path = f"/data/reports/{self._name}/tables/{name}.parquet"
        return parquet_rows(await self._cluster.shell(MEASURE, "server", f"cat {path}"))


def parquet_rows(content: bytes) -> list[Row]:
    """Return the rows of a Parquet file, times as UTC microseconds."""
    read = pq.read_table(io.BytesIO(content))
    fields = [
        pa.field(field.name, pa.int64()) if pa.types.is_timestamp(field.type) else field
        for field in read.schema
    ]
    found: list[Row] = read.cast(pa.schema(fields)).to_pylist()
    return found
