"""TLS of a cluster's controllers: how far they are on the way to it, and what their pods need.

    mode          the controllers                             the operator asks them
    disabled      speak plain TCP and HTTP                    over HTTP
    permissive    speak both, and dial in TLS first           over HTTPS, else over HTTP
    enforcing     speak TLS with each other, and take         over HTTPS
                  changes over HTTPS only

A cluster moves by one mode, and by the next when every controller runs in the new one: a controller that
speaks only TLS does not hear one that speaks only plain TCP. The mode is a variable of the pods' template, so
each pod knows its own, whenever it restarts.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

from rocketmq_operator.api.clusters.tls import ClientsTls, InternalTls, TlsSpec
from rocketmq_operator.plan.common import names, parts
from rocketmq_operator.plan.common.objects import Json, Live, Owner, belonging_labels, child
from rocketmq_operator.plan.pods.observed import ObservedPod

VARIABLE: Final = "CONTROLLER_TLS"
"""Of the controllers' container: the mode, `permissive` or `enforcing`."""
TRUST_KEY: Final = "ca.crt"
REQUIRED_KEY: Final = "controllers-https"
"""Of the ConfigMap of authorities: whether the controllers' changes need HTTPS, `required` or `offered`."""
REQUIRED: Final = "required"
OFFERED: Final = "offered"
START: Final = f"""case "${{{VARIABLE}:-}}" in
permissive) plain=all ;;
enforcing) plain=reads ;;
*) plain= ;;
esac
if [ -n "$plain" ]; then
  tls={names.TLS_PATH}
  printf 'peerTlsMode=%s\\nhttpPlain=%s\\n' "${VARIABLE}" "$plain" >>"$own"
  for port in peerTls httpTls tls.server.; do
    case $port in tls.*) cert=certPath key=keyPath ;; *) cert=CertPath key=KeyPath ;; esac
    printf '%s=%s\\n%s=%s\\n' "$port$cert" "$tls/$id.crt" "$port$key" "$tls/$id.key" >>"$own"
  done
  printf 'peerTlsTrustCertPath=%s\\n' "$tls/{TRUST_KEY}" >>"$own"
fi
"""
"""Part of the controllers' start script: it adds the settings of TLS."""


DIAL_BROKERS: Final = f"""printf 'tls.enable=true\\ntls.client.mode=permissive\\n\
tls.client.trustCertPath=%s\\n' {names.TLS_PATH}/{TRUST_KEY} >>"$own"
"""
"""Part of the controllers' start script, once brokers have certificates."""


class TlsMode(StrEnum):
    """How the controllers speak."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


_ORDER: Final = tuple(TlsMode)


def tls_mode(
    spec: TlsSpec, live: Live | None, pods: Collection[ObservedPod], *, is_needed: bool = False
) -> TlsMode:
    """Return the mode that the controllers' template should have now.

    Args:
        spec: what a person asks for.
        live: the controllers' StatefulSet; None before there is one.
        pods: those of the controllers.
        is_needed: whether other pods dial controllers in TLS.
    """
    if is_needed and spec.internal is InternalTls.DISABLED:
        spec = spec.model_copy(update={"internal": InternalTls.ENFORCED})
    if live is None:
        # Pods that outlived their StatefulSet speak in a mode that is not known: permissive hears each.
        return TlsMode.PERMISSIVE if pods else _wanted(spec, None)
    now = live_mode(live)
    wanted = _wanted(spec, now)
    if now is wanted or not all_in_template(live, pods):
        return now
    at, target = _ORDER.index(now), _ORDER.index(wanted)
    return _ORDER[at + (1 if target > at else -1)]


def _wanted(spec: TlsSpec, now: TlsMode | None) -> TlsMode:
    match spec.internal:
        case InternalTls.ENFORCED:
            return TlsMode.ENFORCING
        case InternalTls.DISABLED:
            return TlsMode.DISABLED
        case None:
            stays = now is TlsMode.DISABLED and spec.clients is ClientsTls.DISABLED
            return TlsMode.DISABLED if stays else TlsMode.ENFORCING


def live_mode(live: Live) -> TlsMode:
    """Return the mode of a StatefulSet's template."""
    containers = live["spec"]["template"]["spec"].get("containers") or []
    for container in containers:
        for variable in container.get("env") or []:
            if variable["name"] == VARIABLE and variable.get("value") in set(_ORDER):
                return TlsMode(variable["value"])
    return TlsMode.DISABLED


def all_in_template(live: Live, pods: Collection[ObservedPod]) -> bool:
    """Tell whether every wanted pod is ready and of the newest template, as far as is known."""
    status, wanted = live.get("status") or {}, live["spec"].get("replicas", 1)
    revision = status.get("updateRevision", "")
    is_known = bool(revision) and status.get("observedGeneration") == live["metadata"].get("generation")
    return (
        is_known
        and len(pods) >= wanted
        and all(pod.ready and not pod.deleting and pod.revision == revision for pod in pods)
    )


def wanted_hosts(owner: Owner) -> Mapping[str, frozenset[str]]:
    """Return the hosts of each controller's certificate by its id, for all controllers that there can be.

    Each has the name by which the others and brokers dial it, and loopback, for commands in its pod.
    """
    hosts = names.controller_hosts(owner.name, owner.namespace)
    return {
        names.controller_id(ordinal): frozenset({host, "localhost", "127.0.0.1"})
        for ordinal, host in enumerate(hosts)
    }


def trust_config_map(
    owner: Owner, bundle: str, mode: TlsMode, clients: Mapping[str, str] | None = None
) -> Json:
    """Return the ConfigMap with the authorities that clients of the cluster trust.

    Args:
        owner: the RocketMQCluster.
        bundle: the authorities in PEM.
        mode: how the controllers speak.
        clients: what groups must know of TLS with clients.
    """
    https = REQUIRED if mode is TlsMode.ENFORCING else OFFERED
    labels = belonging_labels(owner.name)
    data = {TRUST_KEY: bundle, REQUIRED_KEY: https, **(clients or {})}
    return child(owner, "ConfigMap", names.trust(owner.name), labels=labels, data=data)


def with_tls(pod: Json, secret: str, mode: TlsMode) -> Json:
    """Return the controllers' pod with the certificates of the Secret; unchanged if TLS is disabled."""
    if mode is TlsMode.DISABLED:
        return pod
    pod = parts.with_secret(pod, "tls", secret, names.TLS_PATH)
    (container,) = pod["containers"]
    variable = {"name": VARIABLE, "value": str(mode)}
    return pod | {"containers": [container | {"env": [*container["env"], variable]}]}
