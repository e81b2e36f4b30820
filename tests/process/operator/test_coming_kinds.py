"""The operator's process against a real API server.

Definitions come late, go and come back; some objects belong to somebody else.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.kube import bare, coming_kinds

ENDS_WITHIN_S = 300


def test_an_operator_hears_of_kinds_that_come_and_go_and_leaves_foreign_objects_alone(tmp_path: Path) -> None:
    if (why := bare.why_not()) or os.environ.get("RMQHA_BARE_KUBE"):
        pytest.skip(why or "inside the network of another")
    command = [sys.executable, str(coming_kinds.__file__), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_WITHIN_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
