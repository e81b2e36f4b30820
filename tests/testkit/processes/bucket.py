"""A bucket that speaks S3, in a process of its own on loopback."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyarrow import fs

from testkit.processes.ports import LOOPBACK, free_port

NAME: Final = "measured"
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "somebody",
    "AWS_SECRET_ACCESS_KEY": "something",
    "AWS_EC2_METADATA_DISABLED": "true",
}
_START_S_MAX: Final = 90.0
_STOP_S_MAX: Final = 20.0
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where the bucket is.

    Attributes:
        endpoint: URL of its server.
        store: its objects, past the code that is tested.
    """

    endpoint: str
    store: Any

    @property
    def env(self) -> dict[str, str]:
        """Return the environment of a process that may read and write it."""
        return {**os.environ, **CREDENTIALS}

    def make(self) -> None:
        """Make it; until then the server knows no such bucket."""
        self.store.create_dir(NAME)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the size in bytes of each object below a prefix, by its path from there."""
        where = fs.FileSelector(f"{NAME}/{prefix}", recursive=True, allow_not_found=True)
        files = (info for info in self.store.get_file_info(where) if info.type == fs.FileType.File)
        return {info.path.removeprefix(f"{NAME}/{prefix}/"): info.size for info in files}

    def contents(self, prefix: str) -> dict[str, bytes]:
        """Return the content of each object below a prefix, by its path from there."""
        return {path: self.read(f"{prefix}/{path}") for path in self.sizes(prefix)}

    def read(self, path: str) -> bytes:
        """Return an object."""
        with self.store.open_input_file(f"{NAME}/{path}") as file:
            return bytes(file.read())

    def write(self, path: str, content: bytes) -> None:
        """Put an object."""
        with self.store.open_output_stream(f"{NAME}/{path}") as file:
            file.write(content)


@contextmanager
def served(directory: Path) -> Iterator[Bucket]:
    """Serve a bucket that is not made yet; `directory` gets the server's log."""
    port = free_port()
    program = Path(sys.executable).parent / "moto_server"
    with (directory / "bucket.log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "-H", LOOPBACK, "-p", str(port)], stdout=log, stderr=log, start_new_session=True
        )
        try:
            _until_answering(process, f"http://{LOOPBACK}:{port}")
            store = fs.S3FileSystem(
                access_key=CREDENTIALS["AWS_ACCESS_KEY_ID"],
                secret_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
                region="us-east-1",
                scheme="http",
                endpoint_override=f"{LOOPBACK}:{port}",
                allow_bucket_creation=True,
            )
            yield Bucket(f"http://{LOOPBACK}:{port}", store)
        finally:
            process.terminate()
            process.wait(_STOP_S_MAX)


def _until_answering(process: subprocess.Popen[bytes], url: str) -> None:
    deadline_s = time.monotonic() + _START_S_MAX
    while True:
        try:
            with urllib.request.urlopen(url, timeout=_START_S_MAX):  # noqa: S310 - our own, on loopback
                return
        except urllib.error.URLError:
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise
            time.sleep(_POLL_S)
