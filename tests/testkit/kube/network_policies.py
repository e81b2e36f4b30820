"""Evaluate NetworkPolicies for a pair of pods, as a network plug-in does."""

from testkit.products.helm import Json, of


def matches(selector: Json, labels: Json) -> bool:
    """Tell whether a label selector takes pods with these labels."""
    if not selector.get("matchLabels", {}).items() <= labels.items():
        return False
    return all(
        labels.get(rule["key"]) in rule["values"] and rule["operator"] == "In"
        for rule in selector.get("matchExpressions", ())
    )


def _lets_in(peer: Json, labels: Json, namespace: str, own_namespace: str) -> bool:
    """Tell whether a peer of a policy in `own_namespace` means a pod with these labels in `namespace`.

    Addresses of an `ipBlock` count as those outside: some plug-ins leave pods out of them.
    """
    if "ipBlock" in peer:
        return False
    assert set(peer) <= {"namespaceSelector", "podSelector"}
    if "namespaceSelector" in peer:
        if not matches(peer["namespaceSelector"], {"kubernetes.io/metadata.name": namespace}):
            return False
    elif namespace != own_namespace:
        return False
    return matches(peer.get("podSelector", {}), labels)


def open_ports(objects: list[Json], of_labels: Json, to_labels: Json, namespace: str = "mq") -> set[int]:
    """Return the ports of pods in `mq` with `of_labels` that pods with `to_labels` in `namespace` reach."""
    let_in = _let_in(objects, of_labels, to_labels, namespace)
    if namespace != "mq":
        return let_in
    return {port for port in let_in if _let_out(objects, to_labels, of_labels, port)}


def _let_out(objects: list[Json], from_labels: Json, to_labels: Json, port: int) -> bool:
    """Tell whether the policies of a pod in `mq` let it connect to a port of another pod there."""
    policies = [
        one["spec"]
        for one in of(objects, "NetworkPolicy")
        if one["metadata"].get("namespace", "mq") == "mq"
        and "Egress" in one["spec"]["policyTypes"]
        and matches(one["spec"]["podSelector"], from_labels)
    ]
    return not policies or any(
        port in {allowed["port"] for allowed in rule["ports"] if allowed["protocol"] == "TCP"}
        and any(_lets_in(peer, to_labels, "mq", "mq") for peer in rule.get("to", ()))
        for spec in policies
        for rule in spec.get("egress", ())
    )


def _let_in(objects: list[Json], of_labels: Json, to_labels: Json, namespace: str) -> set[int]:
    found = set()
    for policy in of(objects, "NetworkPolicy"):
        if policy["metadata"].get("namespace", "mq") != "mq":
            continue
        if not matches(policy["spec"]["podSelector"], of_labels):
            continue
        for rule in policy["spec"].get("ingress", ()):
            assert rule["from"], "an empty `from` lets everybody in"
            if any(_lets_in(peer, to_labels, namespace, "mq") for peer in rule["from"]):
                found |= {port["port"] for port in rule["ports"]}
    return found
