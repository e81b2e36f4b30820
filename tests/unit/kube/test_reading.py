"""Reads of the cluster under test: by kubectl's names of kinds, over connections that stay open."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from testkit.kube.kubectl import Cluster, KubeError

Json = dict[str, Any]
SHOP: Final = "/api/v1/namespaces/shop"
POD: Final[Json] = {"metadata": {"name": "orders-0", "managedFields": [{}]}}


def _resource(plural: str, singular: str, scope: str, *short: str) -> Json:
    return {"resource": plural, "singularResource": singular, "scope": scope, "shortNames": list(short)}


def _group(name: str, *versions: tuple[str, list[Json]]) -> Json:
    shown = [{"version": version, "resources": resources} for version, resources in versions]
    return {"metadata": {"name": name}, "versions": shown}


EVENTS: Final = _resource("events", "event", "Namespaced", "ev")
CORE: Final = [
    _resource("pods", "pod", "Namespaced", "po"),
    _resource("nodes", "node", "Cluster", "no"),
    EVENTS,
]


class _ApiServer(ThreadingHTTPServer):
    """Answers a few paths, and counts connections and requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.connections = 0
        self.asked: list[str] = []
        self.moved: dict[str, str] = {}
        self.answers: dict[str, Json] = {
            "/api": {"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": CORE}]}]},
            "/apis": {
                "items": [
                    _group("events.k8s.io", ("v1", [EVENTS])),
                    _group("shops.example", ("v2", [_resource("tills", "till", "Namespaced")]), ("v1", [])),
                ]
            },
            f"{SHOP}/pods": {"kind": "PodList", "apiVersion": "v1", "items": [POD]},
            f"{SHOP}/pods/orders-0": {"kind": "Pod", "apiVersion": "v1", **POD},
            f"{SHOP}/events": {"kind": "EventList", "apiVersion": "v1", "items": []},
            "/api/v1/nodes": {"kind": "NodeList", "apiVersion": "v1", "items": []},
            "/apis/shops.example/v2/namespaces/shop/tills": {
                "kind": "TillList",
                "apiVersion": "shops.example/v2",
                "items": [{"metadata": {"name": "one"}}],
            },
        }

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        super().process_request(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _ApiServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        chosen = parse_qs(url.query).get("labelSelector", [""])[0]
        self.server.asked.append(f"{url.path} {chosen}".strip())
        found = self.server.answers.get(url.path)
        told = found or {"reason": "NotFound", "message": f"{url.path} does not exist"}
        body = json.dumps(told).encode()
        place = self.server.moved.get(url.path)
        self.send_response(302 if place else 200 if found else 404)
        if place:
            self.send_header("Location", place)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - Python's own name
        """Stay quiet."""


@pytest.fixture
def api_server() -> Iterator[_ApiServer]:
    server = _ApiServer()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def cluster(api_server: _ApiServer, tmp_path: Path) -> Cluster:
    file = tmp_path / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "clusters": [
                    {"name": "it", "cluster": {"server": f"http://127.0.0.1:{api_server.server_port}"}}
                ],
                "users": [{"name": "it", "user": {}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "current-context": "it",
            }
        )
    )
    return Cluster(file, "shop")


@pytest.mark.parametrize("kind", ["pods", "pod", "po"])
async def test_a_kind_has_the_names_that_kubectl_takes(cluster: Cluster, kind: str) -> None:
    shown = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "orders-0"}}
    assert await cluster.find(kind) == [shown]
    assert await cluster.get(kind, "orders-0") == shown


async def test_a_name_of_the_core_comes_before_the_same_name_of_a_group(
    cluster: Cluster, api_server: _ApiServer
) -> None:
    await cluster.find("events")
    assert api_server.asked[-1] == f"{SHOP}/events"


async def test_a_group_may_be_named_and_its_preferred_version_is_read(cluster: Cluster) -> None:
    (found,) = await cluster.find("tills.shops.example")
    assert (found["kind"], found["apiVersion"]) == ("Till", "shops.example/v2")


async def test_several_kinds_and_labels(cluster: Cluster, api_server: _ApiServer) -> None:
    found = await cluster.find("pods,tills", "app=orders")
    assert [one["kind"] for one in found] == ["Pod", "Till"]
    assert api_server.asked[-2:] == [
        f"{SHOP}/pods app=orders",
        "/apis/shops.example/v2/namespaces/shop/tills app=orders",
    ]


async def test_objects_outside_namespaces(cluster: Cluster) -> None:
    assert await cluster.find("nodes") == []


async def test_a_missing_object_and_an_unknown_kind_are_told_apart(cluster: Cluster) -> None:
    with pytest.raises(KubeError, match=r"404 NotFound: .*orders-9 does not exist"):
        await cluster.get("pod", "orders-9")
    with pytest.raises(KubeError, match="get shelves: the API server does not have this kind"):
        await cluster.find("shelves")


async def test_a_page_that_leads_to_another_one_is_followed(cluster: Cluster, api_server: _ApiServer) -> None:
    api_server.moved[f"{SHOP}/newest"] = f"{SHOP}/pods/orders-0"
    assert json.loads(await cluster.text(f"{SHOP}/newest"))["kind"] == "Pod"
    api_server.moved[f"{SHOP}/pods/orders-0"] = f"{SHOP}/newest"
    with pytest.raises(KubeError, match=f"get {SHOP}/newest: .*too many redirects"):
        await cluster.text(f"{SHOP}/newest")


async def test_a_kind_that_is_installed_later_is_found(cluster: Cluster, api_server: _ApiServer) -> None:
    await cluster.find("pods")
    shelves = _resource("shelves", "shelf", "Namespaced")
    api_server.answers["/apis"]["items"].append(_group("halls.example", ("v1", [shelves])))
    path = "/apis/halls.example/v1/namespaces/shop/shelves"
    api_server.answers[path] = {"kind": "ShelfList", "apiVersion": "halls.example/v1", "items": []}
    assert await cluster.find("shelves") == []


async def test_many_reads_share_a_connection(cluster: Cluster, api_server: _ApiServer) -> None:
    for _ in range(20):
        await cluster.find("pods")
    assert api_server.connections == 1
