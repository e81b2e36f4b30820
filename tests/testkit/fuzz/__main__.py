"""`make fuzz`: look for bytes that a reader of strangers' bytes cannot bear, guided by what they reach.

Each target starts from the stored inputs; `--keep` also stores inputs that reached new code. A
finding is printed with the line that makes it a test: append it to the target's file, and
`tests/unit/fuzz` fails until it is mended.

Exit status: 0 nothing was found, 1 something was, 2 the fuzzer cannot run here.
"""

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testkit.fuzz import corpus
from testkit.fuzz.targets import TARGETS

_MEMORY_MIB_MAX: Final = 1024
_GRACE_S: Final = 300
"""On a busy machine the fuzzer starts late."""


@dataclass(frozen=True, slots=True)
class FuzzRun:
    """What fuzzing one target came to.

    Attributes:
        executions: how many inputs were tried.
        findings: inputs that are bugs.
        text: the end of what the fuzzer said, if there is a finding or it did not end.
        kept: the number of its stored inputs now.
    """

    target: str
    executions: int
    findings: list[bytes]
    text: str
    kept: int


def fuzz(target: str, seconds: float, *, keep: bool) -> FuzzRun:
    """Fuzz one target; with `keep` rewrite its file of inputs."""
    with tempfile.TemporaryDirectory() as scratch:
        known, reached, found = (Path(scratch) / name for name in ("known", "reached", "found"))
        for folder in (known, reached, found):
            folder.mkdir()
        for number, one in enumerate(corpus.load(target)):
            (known / f"{number:05}").write_bytes(one)
        limits = (f"-max_len={corpus.INPUT_BYTES_MAX}", f"-rss_limit_mb={_MEMORY_MIB_MAX}")
        try:
            ended = _child(
                target,
                *(
                    f"-max_total_time={seconds:.0f}",
                    f"-artifact_prefix={found}/",
                    *limits,
                    str(reached),
                    str(known),
                ),
                timeout_s=seconds + _GRACE_S,
            )
        except subprocess.TimeoutExpired as error:
            return FuzzRun(target, 0, [], f"NOT RUN: it did not end in {error.timeout:.0f} s", 0)
        findings = [path.read_bytes() for path in sorted(found.iterdir())]
        if ended.returncode and not findings:
            findings = [b""]  # it ended before it could say at which input
        if keep and not findings:
            more = [path.read_bytes() for path in reached.iterdir()]
            corpus.save(target, corpus.reaching(TARGETS[target], corpus.load(target) + more))
        executions = re.findall(r"^(?:stat::number_of_executed_units: |#)(\d+)", ended.stderr, re.MULTILINE)
        text = ended.stdout[-1500:] + ended.stderr[-1500:] if findings else ""
        return FuzzRun(
            target, int(executions[-1]) if executions else 0, findings, text, len(corpus.load(target))
        )


def _child(target: str, *options: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "testkit.fuzz.child", target, *options],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )


def main() -> int:
    """Fuzz all targets, or those asked for, and return the exit status."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for each target")
    parser.add_argument("--only", choices=TARGETS, action="append", help="this target; may be given again")
    parser.add_argument("--keep", action="store_true", help="keep the inputs that reached further")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("make fuzz needs atheris, which there is for Linux on x86-64 only", file=sys.stderr)
        return 2
    found = 0
    with ThreadPoolExecutor(arguments.at_once) as pool:
        runs = pool.map(
            lambda name: fuzz(name, arguments.seconds, keep=arguments.keep), arguments.only or TARGETS
        )
        for run in runs:
            print(f"{run.target:<18}{run.executions:>10,} inputs tried, {run.kept} kept", flush=True)
            if run.text and not run.findings:
                found += 1
                print(f"{run.target}: {run.text}")
            for one in run.findings:
                found += 1
                print(
                    f"FOUND in {run.target}; add this line to {corpus.path_of(run.target)}:\n"
                    f"{one.hex()}\n{run.text}"
                )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
