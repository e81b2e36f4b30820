"""Why a plan waits, where several kinds of resources wait for the same."""

from collections.abc import Mapping

from rocketmq_operator.plan.common import names
from rocketmq_operator.plan.common.actions import Wait

PAUSED = Wait("Paused", "spec.paused is true: nothing is changed")


def unknown_address(hosts: Mapping[str, str]) -> Wait | None:
    """Say which Service is waited for, None if the address of every host is known.

    Args:
        hosts: address by DNS name of a pod; empty where it is not known.
    """
    unknown = [names.pod_of(host) for host, address in hosts.items() if not address]
    return no_address(unknown[0]) if unknown else None


def no_address(service: str) -> Wait:
    """Say that a Service is waited for."""
    return Wait("NoAddress", f"Service {service} has no ClusterIP yet")
