"""Credentials in files, as a mounted Secret of type kubernetes.io/basic-auth has them."""

from pathlib import Path

from controller_core.access.request_signer import PASSWORD_FILE, USERNAME_FILE
from controller_core.access.signing import Credentials


def write_credentials(directory: Path, credentials: Credentials) -> Path:
    """Write both files, each in one step; return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in ((USERNAME_FILE, credentials.username), (PASSWORD_FILE, credentials.password)):
        new = directory / f"{name}.new"
        new.write_text(text)
        new.replace(directory / name)
    return directory
