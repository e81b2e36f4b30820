"""RocketMQ's proxy as a real process on loopback, and its gRPC client.

A person's application does the same with port 8081.

The proxy reads the file that the operator writes for it; only ports and addresses differ, because they depend
on the machine. The client is Apache RocketMQ's own for Java, unchanged.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from controller_core.access.signing import Credentials
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.proxy import ProxyMode
from rocketmq_operator.plan.common.proxy_config import proxy_conf
from testkit.processes.ports import free_ports
from testkit.processes.process import ManagedProcess, ProcessFailedError
from testkit.rocketmq.jars import client_jars
from testkit.rocketmq.java_programs import compile_java, with_class_path
from testkit.rocketmq.load import signing_options
from testkit.rocketmq.processes import PROXY_CLASS, java_command

PROGRAM: Final = "GrpcClient"
ROUTE_PROGRAM: Final = "RouteQuery"
_ADDRESS: Final = "address "
STARTED: Final = "rocketmq-proxy startup successfully"
BOOT_TIMEOUT_S: Final = 150.0
_CLIENT_TIMEOUT_S: Final = 150.0
_USERS: Final = {"authentication": {"type": "Signature"}, "authorization": {"type": "Simple"}}


class ProxyFile:
    """The operator's rmq-proxy.json of a mode, at home on loopback.

    Attributes:
        path: the file.
        grpc_address: host:port for clients of RocketMQ 5.
        remoting_address: host:port that older clients take for a name server's.
        metrics_url: Prometheus text, of a proxy with a process of its own.
        settings: its content, all values texts.
    """

    def __init__(
        self,
        mode: ProxyMode,
        cluster: str,
        name_server: str,
        directory: Path,
        inner: Credentials | None = None,
        *,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Write the file; with `inner`, of a cluster with users and rights whose super user that is.

        `settings` are over those of the operator.
        """
        remoting, grpc, metrics = free_ports(3)
        self.path: Final = directory / "rmq-proxy.json"
        self.grpc_address: Final = f"127.0.0.1:{grpc}"
        self.remoting_address: Final = f"127.0.0.1:{remoting}"
        self.metrics_url: Final = f"http://127.0.0.1:{metrics}/metrics"
        users = {} if inner is None else _USERS
        spec = RocketMQClusterSpec.model_validate({"proxy": {"mode": str(mode)}} | users)
        written: dict[str, str] = json.loads(proxy_conf(cluster, "shop", spec))
        here = {
            "grpcServerPort": str(grpc),
            "remotingListenPort": str(remoting),
            "metricsPromExporterPort": str(metrics),
            "metricsPromExporterHost": "127.0.0.1",
            "remotingAccessAddr": "127.0.0.1",
            "namesrvAddr": name_server,
        }
        if inner is not None and mode is ProxyMode.CLUSTER:
            # What the start script adds.
            added = json.dumps({"accessKey": inner.username, "secretKey": inner.password})
            written["innerClientAuthenticationCredentials"] = added
        self.settings: Final = (
            written | {key: here[key] for key in here.keys() & written.keys()} | dict(settings or {})
        )
        directory.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.settings))


def proxy_process(jars: Path, file: ProxyFile, directory: Path) -> ManagedProcess:
    """Return a proxy that is a process of its own; nothing runs before its `start`."""
    command = java_command(jars, PROXY_CLASS, "-pc", str(file.path), home=directory / "home")
    return ManagedProcess("proxy", command, directory / "proxy.log")


async def send_and_read(
    endpoints: str,
    topic: str,
    group: str,
    messages: int,
    directory: Path,
    user: tuple[str, str] | None = None,
) -> Any:
    """Send messages by the gRPC client, read and acknowledge them; return the counts of sent and read.

    Args:
        endpoints: host:port of a proxy.
        topic: exists already; a proxy makes none.
        group: the consumer group, which exists already too.
        messages: how many.
        directory: receives the client's log.
        user: name and password that sign its requests; None for none.

    Raises:
        ProcessFailedError: a send failed, or a message was not read.
    """
    jars = await client_jars()
    options = ("--endpoints", endpoints, "--topic", topic, "--group", group, "--messages", str(messages))
    command = java_command(jars, PROGRAM, *options, *signing_options(user), home=directory / "home")
    classes = await compile_java(jars, (PROGRAM,))
    process = ManagedProcess("gRPC client", with_class_path(command, classes), directory / "grpc_client.log")
    async with process:
        status = await process.wait(_CLIENT_TIMEOUT_S)
    if status != 0:
        raise ProcessFailedError(f"the gRPC client ended with {status}:\n{process.tail()}")
    return json.loads(process.output().splitlines()[-1])


async def route_addresses(jars: Path, proxy: str, used: str, topic: str, directory: Path) -> set[str]:
    """Return where a proxy sends a client that reached it at another address, host:port each.

    Args:
        jars: of the proxy's release.
        proxy: host:port of the proxy's gRPC port.
        used: host:port that the client names as the one it connected to.
        topic: the topic whose route it asks for.
        directory: receives the program's log.

    Raises:
        ProcessFailedError: the proxy did not answer.
    """
    options = ("--proxy", proxy, "--used", used, "--topic", topic)
    command = java_command(jars, ROUTE_PROGRAM, *options, home=directory / "home")
    classes = await compile_java(jars, (ROUTE_PROGRAM,))
    process = ManagedProcess("route query", with_class_path(command, classes), directory / "route_query.log")
    async with process:
        status = await process.wait(_CLIENT_TIMEOUT_S)
    if status != 0 or "status OK" not in process.output():
        raise ProcessFailedError(f"the route query ended with {status}:\n{process.tail()}")
    lines = process.output().splitlines()
    return {line.removeprefix(_ADDRESS) for line in lines if line.startswith(_ADDRESS)}
