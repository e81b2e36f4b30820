"""Every kept input against its target; the fuzzer itself runs with `make fuzz`."""

import pytest

from testkit.fuzz import corpus
from testkit.fuzz.targets import TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_kept_inputs_are_borne(target: str) -> None:
    inputs = corpus.load(target)
    assert inputs, f"no stored inputs for {target}: make fuzz KEEP=1"
    for data in inputs:
        TARGETS[target](data)


def test_every_kept_file_has_a_target() -> None:
    assert {path.stem for path in corpus.FOLDER.iterdir()} == set(TARGETS)
