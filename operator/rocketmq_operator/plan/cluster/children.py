"""The children of a RocketMQCluster: name servers, controllers, their token.

Controllers find each other by DNS names of a headless Service that lists pods before they are ready: they
become ready by finding each other. Once a controller's pod runs it needs no DNS: it finds the others in its
own hosts file, at addresses of Services that each of them has for itself. Their configuration is the file
that RocketMQ's own controller reads; a start script adds what differs by pod (which entry of the peers it
is), the peers, and the token, which is a Secret. That Secret also
holds the token of the node agents, which follows from it.

Nothing in a pod's template depends on how many controllers there are, so that none is restarted when that
changes: all pods know the hosts of all controllers that there can be. The list of peers is a file of its own
and not in the digest of the configuration; a controller reads it when it has no log, and knows the others
from its log ever after. Only the operator replaces pods (`OnDelete`, `controller_rolling`): Kubernetes knows
neither leader nor voters.

The volume of a controller that is removed goes with its pod (`whenScaled`), unlike a broker's: what it held,
every other controller holds; and a returning controller must have an empty store, because the others refuse
it with the old one.
"""

import base64
from collections.abc import Mapping
from typing import Final

from controller_core.remoting.nodes.token import node_token
from rocketmq_operator.api.cluster import RocketMQClusterSpec
from rocketmq_operator.api.clusters.controllers import NODE_TIMEOUT_MS_DEFAULT
from rocketmq_operator.api.common import Placement
from rocketmq_operator.plan.cluster.controller_settings import NODE_TIMEOUT, live_settings
from rocketmq_operator.plan.cluster.observed import ClusterSecrets
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.java import JAVA_RUN, java_options
from rocketmq_operator.plan.common.objects import Json, Owner, belonging_labels, child, selector_labels
from rocketmq_operator.plan.common.parts import digest, pod_template
from rocketmq_operator.plan.common.properties import properties
from rocketmq_operator.plan.common.shaping.shaped import PodShape, shaped
from rocketmq_operator.plan.credentials.inner_users import credentials_secret
from rocketmq_operator.plan.pods.logs import java_logs, level_file, logback_file, with_log_target
from rocketmq_operator.plan.tls.clients import (
    ClientsStage,
    annotated,
    with_certificate,
    with_tls_options,
    without_dialling,
)
from rocketmq_operator.plan.tls.controllers import DIAL_BROKERS, START, TlsMode, with_tls

CONTROLLER: Final = "controller"
"""Component of the controllers' objects."""
NAME_SERVER: Final = "nameserver"
"""Component of the name servers' objects."""
_CONTROLLER_PORTS: Final = {
    "remoting": names.CONTROLLER_PORT,
    "raft": names.CONTROLLER_RAFT_PORT,
    "http": names.CONTROLLER_HTTP_PORT,
}
CONTROLLER_STORE: Final = f"{names.STORE_PATH}/controller"
_CONTROLLER_START: Final = f"""#!/bin/sh
# Adds to the shared configuration what only this pod knows.
set -eu
umask 077
own={names.SCRATCH_PATH}/controller.conf
# Not cp: it would keep the file's mode, and nobody may write to what a ConfigMap holds.
cat {names.CONFIG_PATH}/controller.conf >"$own"
id=n${{POD_NAME##*-}}
# The node may still have the list of before this pod was asked for.
until case ";$(cat {names.CONFIG_PATH}/peers)" in *";$id-"*) ;; *) false ;; esac; do sleep 1; done
printf '\\ncontrollerDLegerSelfId=%s\\ncontrollerDLegerPeers=%s\\nhttpToken=%s\\n' \\
  "$id" "$(cat {names.CONFIG_PATH}/peers)" "$(cat {names.TOKEN_PATH}/{names.TOKEN_KEY})" >>"$own"
"""
_CONTROLLER_EXEC: Final = 'exec controller-core serve -c "$own"\n'


def name_server_start(spec: RocketMQClusterSpec) -> str:
    """Return the name servers' start script."""
    return f"""#!/bin/sh
set -eu
{java_logs(spec)}program=mqnamesrv
set -- -c {names.CONFIG_PATH}/namesrv.conf
{JAVA_RUN}exit "$code"
"""


def cluster_children(
    owner: Owner,
    spec: RocketMQClusterSpec,
    secrets: ClusterSecrets,
    peers: int,
    mode: TlsMode = TlsMode.DISABLED,
    stage: ClientsStage = ClientsStage.DISABLED,
) -> tuple[Json, ...]:
    """Return all children but the controllers' StatefulSet, in the order in which they are made.

    Args:
        owner: the RocketMQCluster.
        spec: its spec.
        secrets: what its Secrets hold.
        peers: how many controllers know each other without a log.
        mode: how the controllers speak.
        stage: how far TLS with clients is.
    """
    credentials = (credentials_secret(owner, secrets.users),) if spec.has_users else ()
    return (
        *credentials,
        *(
            ()
            if spec.controllers.ref
            else _of_controllers(owner, spec, secrets.token, peers, controller_start(mode, stage))
        ),
        *(() if spec.name_servers.external else _name_servers(owner, spec, stage)),
    )


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def peer_list(owner: Owner, count: int) -> str:
    """Return the first controllers in the form in which each names itself and the others."""
    hosts = names.controller_hosts(owner.name, owner.namespace, count)
    return ";".join(peer(number, host) for number, host in enumerate(hosts))


def peer(ordinal: int, host: str) -> str:
    """Return a controller in the form in which one is named to the others."""
    return f"{names.controller_id(ordinal)}-{host}:{names.CONTROLLER_PORT}"


def controller_conf(owner: Owner, spec: RocketMQClusterSpec) -> str:
    """Return the controllers' shared configuration but the peers, with RocketMQ's own keys."""
    live = live_settings(spec)
    node_timeout_ms = live.pop(NODE_TIMEOUT)
    values = {
        "controllerDLegerGroup": owner.name,
        "controllerStorePath": CONTROLLER_STORE,
        **live,
        "namespace": owner.namespace,
    }
    if spec.has_users:
        values["credentialsPath"] = names.CREDENTIALS_PATH
    # A line more in every file would restart every controller.
    if spec.failover.node_timeout_ms != NODE_TIMEOUT_MS_DEFAULT:
        values[NODE_TIMEOUT] = node_timeout_ms
    return properties(values)


def _of_controllers(
    owner: Owner, spec: RocketMQClusterSpec, token: str, peers: int, start: str
) -> tuple[Json, ...]:
    labels = selector_labels(CONTROLLER, owner.name) | belonging_labels(owner.name)
    files = {
        "controller.conf": controller_conf(owner, spec),
        "peers": peer_list(owner, peers),
        "start.sh": start,
        **level_file(spec.log_level),
    }
    tokens = {names.TOKEN_KEY: token, names.AGENT_TOKEN_KEY: node_token(token)}
    data = {key: _encoded(text) for key, text in tokens.items()}
    return (
        child(owner, "Secret", names.token_secret(owner.name), labels=labels, type="Opaque", data=data),
        *_beside_pods(
            owner,
            CONTROLLER,
            names.controllers(owner.name),
            names.CONTROLLERS_MAX,
            _CONTROLLER_PORTS,
            files,
        ),
    )


def _beside_pods(
    owner: Owner, component: str, name: str, count: int, ports: Mapping[str, int], files: Mapping[str, str]
) -> tuple[Json, ...]:
    """Return what a component's pods need around them: addresses, a disruption budget and configuration."""
    selector = selector_labels(component, owner.name)
    labels = selector | belonging_labels(owner.name)
    return (
        parts.headless_service(owner, name, labels, selector, ports),
        *_pod_services(owner, name, count, labels, ports),
        parts.disruption_budget(owner, name, labels, selector),
        child(owner, "ConfigMap", name, labels=labels, data=dict(files)),
    )


def controller_start(mode: TlsMode, stage: ClientsStage = ClientsStage.DISABLED) -> str:
    """Return the controllers' start script."""
    add = "" if mode is TlsMode.DISABLED else START
    if stage.has_certificates and add:
        add += DIAL_BROKERS
    return f"{_CONTROLLER_START}{add}{_CONTROLLER_EXEC}"


def controller_set(
    owner: Owner,
    spec: RocketMQClusterSpec,
    replicas: int,
    hosts: Mapping[str, str],
    mode: TlsMode = TlsMode.DISABLED,
    stage: ClientsStage = ClientsStage.DISABLED,
) -> Json:
    """Return the controllers' StatefulSet with so many replicas: current and future members.

    Args:
        owner: the RocketMQCluster.
        spec: its spec.
        replicas: how many.
        hosts: ClusterIP by the DNS name of each controller that there can be.
        mode: how the controllers speak.
        stage: how far TLS with clients is.
    """
    name = names.controllers(owner.name)
    selector = selector_labels(CONTROLLER, owner.name)
    labels = selector | belonging_labels(owner.name)
    pod = _controller_pod(spec, name, names.token_secret(owner.name), selector)
    if spec.has_users:
        pod = parts.with_credentials(pod, owner.name)
    pod["hostAliases"] = parts.host_aliases(hosts)
    pod = with_tls(pod, names.controller_certificates(owner.name), mode)
    configuration = digest(controller_conf(owner, spec), controller_start(mode, stage))
    # Controllers are the same at all stages but `disabled`: they dial in TLS first, in plain TCP otherwise.
    seen = ClientsStage.PERMISSIVE if stage.has_certificates else stage
    template = shaped(annotated(pod_template(labels, configuration, pod), seen), controller_shape(spec))
    return child(
        owner,
        "StatefulSet",
        name,
        labels=labels,
        spec={
            "serviceName": name,
            "replicas": replicas,
            # Why parallel: a controller becomes ready only when it hears from the others.
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Delete"},
            "selector": {"matchLabels": selector},
            "template": template,
            "volumeClaimTemplates": [
                parts.claim_template(
                    spec.controllers.storage.size,
                    spec.controllers.storage.storage_class_name,
                    belonging_labels(owner.name),
                )
            ],
        },
    )


def _pod_services(
    owner: Owner, set_name: str, count: int, labels: Mapping[str, str], ports: Mapping[str, int]
) -> tuple[Json, ...]:
    """Return a Service for each pod of a set, by which the others reach it without DNS."""
    return tuple(
        parts.pod_service(owner, names.member(set_name, ordinal), labels, ports) for ordinal in range(count)
    )


def _controller_pod(spec: RocketMQClusterSpec, name: str, secret: str, selector: dict[str, str]) -> Json:
    http = names.CONTROLLER_HTTP_PORT
    container = parts.container(
        "controller",
        spec.images.controller,
        ["/bin/sh", f"{names.CONFIG_PATH}/start.sh"],
        _CONTROLLER_PORTS,
        env=parts.pod_name_environment(),
        resources=parts.resources(spec.controllers.resources),
        startupProbe=parts.http_probe("/livez", http, failures_max=parts.STARTUP_FAILURES_MAX, period_s=1),
        livenessProbe=parts.http_probe("/livez", http, period_s=5),
        readinessProbe=parts.http_probe("/readyz", http),
        volumeMounts=[
            *parts.mounts(data=True),
            {"name": "token", "mountPath": names.TOKEN_PATH, "readOnly": True},
        ],
    )
    pod: Json = {
        "automountServiceAccountToken": False,
        "securityContext": parts.pod_security(parts.OUR_USER),
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "volumes": [
            *parts.volumes(name),
            {"name": "token", "secret": {"secretName": secret, "defaultMode": 0o440}},
        ],
    }
    return parts.with_placement(pod, Placement(), selector)


def controller_shape(spec: RocketMQClusterSpec) -> PodShape:
    """Return a person's wishes for the controllers' pods."""
    return PodShape("spec.controllers.pod", spec.controllers.pod, spec.controllers.pod_override)


def name_server_shape(spec: RocketMQClusterSpec) -> PodShape:
    """Return a person's wishes for the name servers' pods."""
    return PodShape(
        "spec.nameServers.pod", spec.name_servers.pod, spec.name_servers.pod_override, spec.name_servers.jvm
    )


def _name_server_options(spec: RocketMQClusterSpec, stage: ClientsStage) -> str:
    options = java_options(spec.name_servers.resources, spec.name_servers.jvm, "spec.nameServers.jvm")
    return with_tls_options(options, without_dialling(stage))


def _name_servers(owner: Owner, spec: RocketMQClusterSpec, stage: ClientsStage) -> tuple[Json, ...]:
    name = names.name_servers(owner.name)
    selector = selector_labels(NAME_SERVER, owner.name)
    labels = selector | belonging_labels(owner.name)
    ports = {"remoting": names.NAME_SERVER_PORT}
    conf = (
        properties(dict(sorted(spec.name_servers.config.items()))) + f"listenPort={names.NAME_SERVER_PORT}\n"
    )
    container = parts.container(
        "nameserver",
        spec.rocketmq_image,
        ["/bin/sh", f"{names.CONFIG_PATH}/start.sh"],
        ports,
        env=[{"name": "JAVA_OPT_EXT", "value": _name_server_options(spec, stage)}],
        resources=parts.resources(spec.name_servers.resources),
        startupProbe=parts.tcp_probe(
            names.NAME_SERVER_PORT, failures_max=parts.STARTUP_FAILURES_MAX, period_s=1
        ),
        livenessProbe=parts.tcp_probe(names.NAME_SERVER_PORT, period_s=10),
        readinessProbe=parts.tcp_probe(names.NAME_SERVER_PORT),
        volumeMounts=parts.mounts(data=False),
    )
    pod: Json = {
        "automountServiceAccountToken": False,
        "securityContext": parts.pod_security(parts.ROCKETMQ_USER),
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
        "volumes": parts.volumes(name),
    }
    pod = with_certificate(pod, owner.name, names.NAME_SERVER_ENTRY, stage)
    start = name_server_start(spec)
    configuration = digest(conf, start)
    template = pod_template(labels, configuration, parts.with_placement(pod, Placement(), selector))
    template = annotated(template, without_dialling(stage))
    stateful_set = child(
        owner,
        "StatefulSet",
        name,
        labels=labels,
        spec={
            "serviceName": name,
            "replicas": spec.name_servers.replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": selector},
            "template": shaped(template, name_server_shape(spec)),
        },
    )
    files = {"namesrv.conf": conf, "start.sh": start, **logback_file(spec)}
    return (
        *_beside_pods(owner, NAME_SERVER, name, spec.name_servers.replicas, ports, files),
        with_log_target(stateful_set, spec),
    )
