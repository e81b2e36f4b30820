"""A kept cluster is ended by its pids, and only while they are still its own."""

import os
import subprocess
import sys
from pathlib import Path

from testkit.demo import kept


def test_a_process_of_the_demo_is_ended(tmp_path: Path) -> None:
    program = "import sys, time; print('up', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        kept.write_down(tmp_path, [child.pid])
        # The child is ours to reap, so it stays a zombie without a command line, which counts as ended.
        assert kept.end_kept(tmp_path) == 1
        assert child.wait(60) != 0


def test_a_pid_that_is_another_process_by_now_is_left_alone(tmp_path: Path) -> None:
    kept.write_down(tmp_path, [os.getpid()])
    assert kept.end_kept(tmp_path) == 0


def test_without_a_kept_cluster_nothing_is_done(tmp_path: Path) -> None:
    assert kept.end_kept(tmp_path) == 0
