"""The pods that a migration starts.

Each does one thing and ends, and says what it found in its termination message.

Brokers and name servers have addresses inside the cluster only, and stores can be read where they are mounted
only. So these pods run what the person's own machine could not, with the image of the log replicas, under the
restricted profile and without a token. Those that mount a volume have the user of the brokers, whose files
these are.
"""

import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from controller_core.tls.files import ENFORCING, PERMISSIVE, TRUST_FILE
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.clusters.tls import ClientsTls
from rocketmq_operator.api.common import Resources
from rocketmq_operator.api.names import COMPONENT_LABEL
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.objects import MANAGED_BY, Json
from rocketmq_operator.plan.migration.observed import BrokerRecord, ObservedMigration, OldMember

COMPONENT: Final = "migration"
CONTAINER: Final = "migration"
VOLUME_PATH: Final = "/volume"
_OUTPUT: Final = "--output=json"
ANSWER_PATH: Final = "/dev/termination-log"
RESOURCES: Final = Resources(cpu="50m", memory="256Mi", cpu_limit="1")
"""With a limit of CPUs, which a quota on `limits.cpu` demands: no heartbeat waits for these pods."""


def survey_pod(observed: ObservedMigration, addresses: Sequence[str], *, unread: bool = False) -> Json:
    """Return the pod that asks old brokers at these addresses, host:port each."""
    words = ["ha-sidecar", "survey", _OUTPUT, f"--brokers={','.join(addresses)}"]
    if unread:
        words += ["--unread", *(f"--ignore={name}" for name in observed.request.ignored)]
    return _asking_pod(observed, "survey", words, _old_access(observed))


def new_master_pod(observed: ObservedMigration, address: str) -> Json:
    """Return the pod that asks the new master.

    It has the credentials and the authorities of its cluster, if that has users, and TLS with clients.
    """
    words = ["ha-sidecar", "survey", _OUTPUT, f"--brokers={address}"]
    cluster, spec = observed.request.spec.cluster, _cluster_spec(observed)
    access = _Access(
        names.credentials_secret(cluster) if spec.has_users else "",
        names.trust(cluster) if spec.tls.clients is not ClientsTls.DISABLED else "",
        ENFORCING if spec.tls.clients is ClientsTls.ENFORCING else PERMISSIVE,
    )
    return _asking_pod(observed, "survey", words, access)


def permission_pod(observed: ObservedMigration, wanted: str, addresses: Sequence[str]) -> Json:
    """Return the pod that forbids writes (`read`) or allows them (`write`)."""
    request = observed.request
    words = ["ha-sidecar", "permission", wanted, _OUTPUT, f"--group={request.broker_name}"]
    words += [f"--brokers={','.join(addresses)}"]
    words += [f"--name-servers={','.join(request.name_servers)}"]
    return _asking_pod(observed, f"permission-{wanted}", words, _old_access(observed))


def verify_pod(observed: ObservedMigration, member: OldMember, record: BrokerRecord) -> Json:
    """Return the pod that checks every record of a stopped broker's log, which it cannot change."""
    log = f"{VOLUME_PATH}/{record.commit_log}"
    words = ["ha-sidecar", "verify", log, _OUTPUT, f"--mapped-file-bytes={record.file_bytes}"]
    return _pod(observed, f"verify-{member.pod}", words, claim=record.claim, read_only=True)


def adopt_pod(observed: ObservedMigration, member: OldMember, record: BrokerRecord, keep: str) -> Json:
    """Return the pod that makes a stopped broker's store ours."""
    words = [
        "ha-sidecar",
        "adopt",
        VOLUME_PATH,
        _OUTPUT,
        f"--store={record.store}",
        f"--commit-log={record.commit_log}",
    ]
    words += [f"--keep={keep}", f"--mapped-file-bytes={record.file_bytes}"]
    return _pod(observed, f"adopt-{member.pod}", words, claim=record.claim)


class _Access(NamedTuple):
    """How a pod asks: the Secret that signs, the ConfigMap of authorities, and the mode of TLS."""

    credentials: str
    trust: str
    mode: str


def _old_access(observed: ObservedMigration) -> _Access:
    return _Access(observed.request.credentials, observed.request.trust, PERMISSIVE)


def _asking_pod(observed: ObservedMigration, what: str, words: Sequence[str], access: _Access) -> Json:
    """Return a pod that asks brokers."""
    if access.credentials:
        words = [*words, f"--credentials={names.CREDENTIALS_PATH}"]
    if access.trust:
        words = [*words, f"--tls={names.TLS_PATH}", f"--tls-mode={access.mode}"]
    pod = _pod(observed, what, words)
    if access.credentials:
        pod["spec"] = parts.with_secret(
            pod["spec"], "credentials", access.credentials, names.CREDENTIALS_PATH
        )
    if access.trust:
        (container,) = pod["spec"]["containers"]
        container["volumeMounts"].append({"name": "trust", "mountPath": names.TLS_PATH, "readOnly": True})
        items = [{"key": TRUST_FILE, "path": TRUST_FILE}]
        source = {"name": access.trust, "items": items}
        pod["spec"]["volumes"].append({"name": "trust", "configMap": source})
    return pod


def _pod(
    observed: ObservedMigration,
    what: str,
    words: Sequence[str],
    *,
    claim: str = "",
    read_only: bool = False,
) -> Json:
    mounts: list[Json] = [{"name": "scratch", "mountPath": "/tmp"}]  # noqa: S108 - an emptyDir of the pod's own
    volumes: list[Json] = [{"name": "scratch", "emptyDir": {}}]
    if claim:
        mounts.append({"name": "volume", "mountPath": VOLUME_PATH, "readOnly": read_only})
        volumes.append({"name": "volume", "persistentVolumeClaim": {"claimName": claim}})
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "securityContext": parts.pod_security(parts.ROCKETMQ_USER if claim else parts.OUR_USER),
        "containers": [
            parts.container(
                CONTAINER,
                _cluster_spec(observed).images.replica,
                ["/bin/sh", "-c", f"exec {shlex.join(words)} >{ANSWER_PATH}"],
                {},
                resources=parts.resources(RESOURCES),
                volumeMounts=mounts,
            )
        ],
        "volumes": volumes,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{observed.request.group}-migrate-{what}",
            "namespace": observed.request.namespace,
            "labels": {"app.kubernetes.io/managed-by": MANAGED_BY, COMPONENT_LABEL: COMPONENT},
        },
        "spec": spec,
    }


def _cluster_spec(observed: ObservedMigration) -> RocketMQClusterSpec:
    return RocketMQClusterSpec.model_validate((observed.cluster or {}).get("spec") or {})
