"""Rights against their use: used rights, granted rights, and the report of the difference."""

from typing import Any

from testkit.kube.audit import policy
from testkit.kube.rights import Right, difference, granted, used

Json = dict[str, Any]
PODS = Right("operator", "", "pods", "list")
SLICES = Right("operator", "discovery.k8s.io", "endpointslices", "patch")


def _event(verb: str, resource: str, account: str = "operator", **more: Any) -> Json:
    return {
        "user": {"username": f"system:serviceaccount:mq:{account}"},
        "verb": verb,
        "requestURI": f"/api/v1/namespaces/mq/{resource}?limit=500",
        "objectRef": {"resource": resource, "namespace": "mq"},
        "responseStatus": {"code": 200},
        "annotations": {"authorization.k8s.io/decision": "allow"},
    } | more


def _role(kind: str, name: str, *rules: tuple[str, str, str], namespace: str = "") -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    shaped = [{"apiGroups": [group], "resources": [what], "verbs": [verb]} for group, what, verb in rules]
    return {"kind": kind, "metadata": metadata, "rules": shaped}


def _binding(role: Json, account: str = "operator", where: str = "mq") -> Json:
    namespace = role["metadata"].get("namespace")
    return {
        "metadata": {"name": role["metadata"]["name"]} | ({"namespace": namespace} if namespace else {}),
        "roleRef": {"kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": where}],
    }


def test_what_an_account_of_the_namespace_was_allowed_is_used() -> None:
    foreign = _event("get", "nodes") | {"user": {"username": "system:serviceaccount:other:operator"}}
    person = _event("get", "nodes") | {"user": {"username": "admin"}}
    discovery = _event("get", "") | {"requestURI": "/apis"}
    del discovery["objectRef"]
    seen = used([_event("list", "pods"), foreign, person, discovery], "mq")
    assert (seen.rights, seen.refused) == ({PODS}, frozenset())


def test_a_subresource_is_named_as_rules_name_it() -> None:
    where = {"resource": "topics", "subresource": "status", "apiGroup": "rocketmq-ha.dev"}
    (right,) = used([_event("patch", "topics", objectRef=where)], "mq").rights
    assert right == ("operator", "rocketmq-ha.dev", "topics/status", "patch")


def test_an_apply_that_made_the_object_used_the_right_to_create_too() -> None:
    changed, made = (_event("patch", "services", responseStatus={"code": code}) for code in (200, 201))
    assert {right.verb for right in used([changed], "mq").rights} == {"patch"}
    assert {right.verb for right in used([made], "mq").rights} == {"patch", "create"}


def test_what_was_refused_for_want_of_a_right_is_told_and_counts_as_no_use() -> None:
    forbidden = _event("list", "secrets", annotations={"authorization.k8s.io/decision": "forbid"})
    # A quota or a policy answers with 403 too: no want of a right.
    quota = _event("create", "pods", responseStatus={"code": 403})
    seen = used([forbidden, forbidden, quota], "mq")
    assert seen.refused == {"operator: list /api/v1/namespaces/mq/secrets"}
    assert {right.resource for right in seen.rights} == {"pods"}


def test_rights_come_by_roles_and_cluster_roles_that_are_bound_to_the_account() -> None:
    own = _role("Role", "own", ("", "pods", "list"), namespace="mq")
    elsewhere = _role("Role", "own", ("", "pods", "delete"), namespace="shop")
    everywhere = _role("ClusterRole", "own", ("discovery.k8s.io", "endpointslices", "patch"))
    roles = [own, elsewhere, everywhere]
    assert granted(roles, [_binding(own)], "mq") == {PODS}
    assert granted(roles, [_binding(own), _binding(everywhere)], "mq") == {PODS, SLICES}
    assert {right.verb for right in granted(roles, [_binding(elsewhere)], "mq")} == {"delete"}
    assert granted(roles, [_binding(own, where="other")], "mq") == frozenset()


def test_the_difference_is_told_in_both_directions() -> None:
    apart = difference(frozenset({PODS}), frozenset({SLICES}))
    assert (apart.ungranted, apart.unused, apart.unexcused) == ({PODS}, {SLICES}, frozenset())
    same = difference(frozenset({PODS}), frozenset({PODS}))
    assert (same.ungranted, same.unused) == (frozenset(), frozenset())


def test_an_excuse_holds_for_what_is_granted_and_not_used_and_for_nothing_else() -> None:
    both = frozenset({PODS, SLICES})
    excused = {SLICES: "a reason"}
    assert difference(frozenset({PODS}), both, excused) == difference(both, both)
    assert difference(both, both, excused).unexcused == {SLICES}, "it is used"
    assert difference(frozenset({PODS}), frozenset({PODS}), excused).unexcused == {SLICES}, (
        "it is not granted"
    )


def test_the_log_keeps_no_bodies_and_nobody_else() -> None:
    ours, others = policy("mq")["rules"]
    assert (ours["level"], ours["userGroups"]) == ("Metadata", ["system:serviceaccounts:mq"])
    assert others == {"level": "None"}
