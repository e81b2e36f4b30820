"""The files of a replica's id: as Java writes them, and refused if they belong to another group."""

from pathlib import Path

import pytest

from ha_sidecar.common.identity import Application, IdentityError, IdentityFiles


def test_an_id_lives_in_java_s_files(tmp_path: Path) -> None:
    files = IdentityFiles(tmp_path, "c", "g")
    assert (files.read(), files.read_application()) == (None, None)
    files.write_application(Application(3, "1.2.3.4:5;67"))
    assert (tmp_path / "brokerIdentity-temp").read_text() == "c#g#3#1.2.3.4:5;67"
    assert files.read_application() == Application(3, "1.2.3.4:5;67")
    files.promote(3)
    assert (tmp_path / "brokerIdentity").read_text() == "c#g#3"
    assert (files.read(), files.read_application()) == (3, None)


@pytest.mark.parametrize("text", ["c#other#3", "c#g#0", "c#g#x", "c#g", ""])
def test_an_identity_that_is_not_ours_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "brokerIdentity").write_text(text)
    with pytest.raises(IdentityError):
        IdentityFiles(tmp_path, "c", "g").read()
