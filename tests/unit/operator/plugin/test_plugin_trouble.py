"""`kubectl rmqha` in trouble: one sentence on stderr, and 1 after a failure or 2 after misuse."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from rocketmq_operator.api.names import API_VERSION, GROUP, OUR_KINDS, VERSION
from rocketmq_operator.clients import kube
from rocketmq_operator.plugin import cli
from testkit.processes.ports import free_port

Json = dict[str, Any]
NAMESPACE: Final = "shop"
FORBIDDEN: Final = 'brokergroups.rocketmq-ha.dev is forbidden: User "ann" cannot list resource'
_GROUPS: Final = f"/apis/{API_VERSION}/namespaces/{{}}/brokergroups"


def _discovery(*, installed: bool) -> dict[str, Json]:
    """Return what an API server says of itself, with or without our kinds."""
    core = [{"name": "namespaces", "kind": "Namespace", "namespaced": False, "verbs": ["get"]}]
    ours = [
        {"name": one.plural, "kind": one.kind, "singularName": one.singular, "namespaced": True, "verbs": []}
        for one in OUR_KINDS
    ]
    version = {"groupVersion": API_VERSION, "version": VERSION}
    group = {"name": GROUP, "versions": [version], "preferredVersion": version}
    pages: dict[str, Json] = {
        "/version": {"major": "1", "minor": "34"},
        "/apis": {"kind": "APIGroupList", "groups": [group] if installed else []},
        "/api/v1": {"kind": "APIResourceList", "resources": core},
    }
    if installed:
        pages[f"/apis/{API_VERSION}"] = {"kind": "APIResourceList", "resources": ours}
    return pages


def _status(code: int, message: str) -> Json:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message}


class _Server:
    """An API server of which a test says what it answers; paths that it does not know are 404."""

    def __init__(self, folder: Path) -> None:
        self.pages = _discovery(installed=True)
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                page = served.pages.get(path, _status(404, f"{path} not found"))
                body = page if isinstance(page, bytes) else json.dumps(page).encode()
                self.send_response(500 if isinstance(page, bytes) else page.get("code", 200))
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.kubeconfig = _kubeconfig(folder, self._http.server_address[1])

    def has(self, namespace: str, *groups: Json) -> None:
        self.pages[f"/api/v1/namespaces/{namespace}"] = {"kind": "Namespace", "metadata": {"name": namespace}}
        self.pages[_GROUPS.format(namespace)] = {"kind": "BrokerGroupList", "items": list(groups)}

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


def _kubeconfig(folder: Path, port: int) -> str:
    path = folder / "config"
    values = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "ann", "namespace": NAMESPACE}}],
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "ann", "user": {"token": "ann"}}],
    }
    path.write_text(json.dumps(values))
    return str(path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[_Server]:
    """Return an API server with our kinds and one empty namespace."""
    served = _Server(tmp_path)
    served.has(NAMESPACE)
    yield served
    served.stop()


def _complaint(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """Run the plugin; return its sentence."""
    assert cli.main(arguments) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("kubectl rmqha: ")
    assert printed.err.count("\n") == 1
    assert printed.err.endswith("\n")
    return printed.err.strip().removeprefix("kubectl rmqha: ")


def test_an_empty_namespace_is_no_trouble(server: _Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--kubeconfig", server.kubeconfig]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("words", [["status"], ["status", "orders"], ["explain", "orders"], ["failovers"]])
def test_an_unknown_namespace_is_named(
    server: _Server, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    for plural in ("brokergroups", "failovers"):
        server.pages[f"/apis/{API_VERSION}/namespaces/shpo/{plural}"] = {"kind": "List", "items": []}
    said = _complaint(capsys, 1, *words, "-n", "shpo", "--kubeconfig", server.kubeconfig)
    assert said == "namespace shpo does not exist"


def test_who_may_not_look_at_namespaces_is_told_that_the_group_is_not_there(
    server: _Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pages[f"/api/v1/namespaces/{NAMESPACE}"] = _status(403, "namespaces is forbidden")
    assert cli.main(["status", "--kubeconfig", server.kubeconfig]) == 0
    capsys.readouterr()
    said = _complaint(capsys, 1, "status", "orders", "--kubeconfig", server.kubeconfig)
    assert said == "BrokerGroup orders does not exist in namespace shop"


def test_a_right_that_lacks_is_told_in_the_api_servers_words(
    server: _Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pages[_GROUPS.format(NAMESPACE)] = _status(403, FORBIDDEN)
    said = _complaint(capsys, 1, "status", "--kubeconfig", server.kubeconfig)
    assert said == f"BrokerGroup: 403 Forbidden: {FORBIDDEN}"


def test_an_answer_that_is_not_a_status_is_told_as_it_is(
    server: _Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.pages[_GROUPS.format(NAMESPACE)] = b"[" * 100_000
    said = _complaint(capsys, 1, "status", "--kubeconfig", server.kubeconfig)
    assert said.startswith("BrokerGroup: 500 Internal Server Error: [[[")


def test_a_wrong_token_is_told(server: _Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.pages["/version"] = _status(401, "Unauthorized")
    assert "refused: 401 Unauthorized" in _complaint(capsys, 1, "status", "--kubeconfig", server.kubeconfig)


def test_kinds_that_are_not_installed_are_told(server: _Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.pages = _discovery(installed=False)
    said = _complaint(capsys, 1, "status", "--kubeconfig", server.kubeconfig)
    assert said == f"this Kubernetes does not know kind BrokerGroup of {API_VERSION}"


def test_an_api_server_out_of_reach_is_told_with_its_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    said = _complaint(capsys, 1, "status", "--kubeconfig", _kubeconfig(tmp_path, port))
    assert said == (f"the API server http://127.0.0.1:{port} does not answer: [Errno 111] Connection refused")


def test_an_api_server_that_accepts_and_never_answers_is_told_in_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube, "_TIMEOUT_S", (1.0, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        said = _complaint(capsys, 1, "status", "--kubeconfig", _kubeconfig(tmp_path, port))
    assert said.startswith(f"the API server http://127.0.0.1:{port} does not answer: ")
    assert socket.getdefaulttimeout() is None


@pytest.mark.parametrize("text", ["a: [", "[]", "current-context: here", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    said = _complaint(capsys, 1, "status", "--kubeconfig", str(path))
    assert said.startswith("no configuration for Kubernetes: ")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["staus"], "'staus'"),
        ([], "COMMAND"),
        (["switchover"], "GROUP"),
        (["status", "--nodes"], "--nodes"),
        (["switchover", "orders", "--timeout", "soon"], "'soon'"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_sentence(
    capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    assert named in _complaint(capsys, 2, *words)


def test_an_option_without_what_it_needs_is_misuse(
    server: _Server, capsys: pytest.CaptureFixture[str]
) -> None:
    said = _complaint(capsys, 2, "report", "--run", "--kubeconfig", server.kubeconfig)
    assert said == "--run needs the name of a report"
