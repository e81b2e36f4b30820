"""Credentials of a directory, on connections that dial."""

import asyncio
import logging
from pathlib import Path

import pytest

from controller_core.access import request_signer as module
from controller_core.access.request_signer import CREDENTIAL_BYTES_MAX, RequestSigner
from controller_core.access.signing import ACCESS_KEY, SIGNATURE, Credentials, signed
from controller_core.channel import Connection, connect, serve
from controller_core.channel.asking import Asker
from controller_core.remoting.command import RemotingCommand

REQUEST = RemotingCommand.request(25, {"a": "b"}, b"x=1")


@pytest.fixture(autouse=True)
def _look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.0)


def _write(directory: Path, username: bytes, password: bytes) -> None:
    """Write both files, as new ones: Kubernetes replaces them."""
    for name, content in ((module.USERNAME_FILE, username), (module.PASSWORD_FILE, password)):
        new = directory / f"{name}.new"
        new.write_bytes(content)
        new.replace(directory / name)


def test_requests_are_signed_from_the_moment_when_the_files_exist(tmp_path: Path) -> None:
    signer = RequestSigner(tmp_path)
    assert signer(REQUEST) is REQUEST
    assert signer.username == ""
    _write(tmp_path, b"alice\n", b"first")
    assert signer(REQUEST) == signed(REQUEST, Credentials("alice", "first"))
    assert signer.username == "alice"
    _write(tmp_path, b"alice\n", b"later")
    assert signer(REQUEST) == signed(REQUEST, Credentials("alice", "later"))


@pytest.mark.parametrize(
    "password", [b"", b"two\nlines", b"\xff", b"p" * (CREDENTIAL_BYTES_MAX + 1), b"pass\x00word"]
)
def test_files_that_cannot_be_read_keep_the_last_credentials_and_the_log_has_no_password(
    tmp_path: Path, password: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    signer = RequestSigner(tmp_path)
    _write(tmp_path, b"alice", b"secret-1")
    expected = signer(REQUEST)
    _write(tmp_path, b"alice", password)
    assert signer(REQUEST) == signer(REQUEST) == expected
    assert caplog.text.count("the last credentials stay in use") == 1
    (tmp_path / module.PASSWORD_FILE).unlink()
    assert signer(REQUEST) == expected
    assert "secret-1" not in caplog.text
    assert "secret-1" not in repr(signer)
    if password.isalnum():
        assert password.decode() not in caplog.text


async def test_a_connection_signs_its_requests_and_not_its_answers(tmp_path: Path) -> None:
    _write(tmp_path, b"alice", b"first")
    signer, came = RequestSigner(tmp_path), asyncio.Queue[RemotingCommand]()
    answers: asyncio.Queue[RemotingCommand] = asyncio.Queue()

    def on_request(connection: Connection, request: RemotingCommand) -> RemotingCommand:
        came.put_nowait(request)
        asked = connection.start_call(RemotingCommand.request(1008))
        asked.add_done_callback(lambda done: answers.put_nowait(done.result()))
        return RemotingCommand.response_to(request, 0, {"from": "server"})

    server = await serve("127.0.0.1", 0, lambda one: setattr(one, "on_request", on_request))
    connection = await connect("127.0.0.1", server.port, 5.0, sign=signer)
    connection.on_request = lambda _, request: RemotingCommand.response_to(request, 0, {"from": "client"})
    asker = Asker(("127.0.0.1", server.port), signer)
    try:
        await connection.call(REQUEST, 5.0)
        connection.send_oneway(RemotingCommand.request(1008, {"c": "d"}))
        await asker.ask(25, None, b"x=1")
        expected = [
            REQUEST,
            RemotingCommand.request(1008, {"c": "d"}),
            RemotingCommand.request(25, None, b"x=1"),
        ]
        for request in expected:
            assert (await came.get()).ext == signer(request).ext
        assert (await answers.get()).ext == {"from": "client"}
    finally:
        asker.close()
        connection.close()
        await server.close()


def test_nothing_is_signed_twice(tmp_path: Path) -> None:
    _write(tmp_path, b"alice", b"first")
    signer = RequestSigner(tmp_path)
    again = signer(signer(REQUEST))
    assert again == signer(REQUEST)
    assert sorted(again.ext or {}) == sorted([ACCESS_KEY, SIGNATURE, "a"])
