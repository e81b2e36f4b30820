"""One target under the fuzzer, in a process of its own: the fuzzer never returns.

    python -m testkit.fuzz.child TARGET [option of libFuzzer or folder of inputs ...]

Everything that is imported after `instrument_imports` reports which of its branches an input reached.
"""

import sys

import atheris

from testkit.fuzz.corpus import READERS

with atheris.instrument_imports(include=list(READERS)):  # pyright: ignore[reportAttributeAccessIssue] # set at run time
    from testkit.fuzz.targets import TARGETS


def main() -> None:
    """Fuzz until libFuzzer ends the process: at a finding, or when its time is over."""
    program, target, *options = sys.argv
    atheris.Setup([program, *options], TARGETS[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
