"""TLS of Java processes: the options that the operator writes, with the files of a test."""

from pathlib import Path
from typing import Final

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.tls.clients import ClientsStage, java_tls_options
from testkit.processes.certificates import Authority

JAVA_OPTIONS: Final = "JDK_JAVA_OPTIONS"
"""The variable from which each JVM that starts takes options."""


def server_options(directory: Path, stage: ClientsStage = ClientsStage.ENFORCING) -> str:
    """Return the options of a broker, name server or proxy whose certificate is in a directory."""
    return java_tls_options(stage).replace(names.TLS_PATH, str(directory)).strip()


def client_options(authority: Authority) -> tuple[str, ...]:
    """Return the options of a client that verifies its servers."""
    return ("-Dtls.client.authServer=true", f"-Dtls.client.trustCertPath={authority.trust}")
