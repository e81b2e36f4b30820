"""The parser of a program and the way in which it ends.

Exit status: 0 done, 1 failed, 2 misused. An error is one line on standard error, `program: message`. A
program may give numbers from 3 on a meaning of its own.

Never here: what a command does, or which errors of its work exist.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from controller_core.command_line.version import AddVersion
from controller_core.error_text import error_text
from controller_core.remoting.text_bounds import one_line

EXIT_DONE: Final = 0
EXIT_FAILED: Final = 1
EXIT_MISUSED: Final = 2

Errors = tuple[type[BaseException], ...]


class MisuseError(Exception):
    """The words on the command line are wrong; the text says which words, and which are expected."""


class FailedError(Exception):
    """A command could not do its work; the text says why."""


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are `MisuseError`, and which takes no abbreviations of options.

    Why no abbreviations: a script that uses one breaks when an option with the same beginning is added.
    """

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - argparse's own arguments
        """Take the arguments of `argparse.ArgumentParser`."""
        given.setdefault("allow_abbrev", False)
        super().__init__(**given)

    def error(self, message: str) -> NoReturn:
        """Refuse the command line.

        Raises:
            MisuseError: always.
        """
        raise MisuseError(f"{message} (see {self.prog} --help)")


def program(prog: str, description: str, distribution: str) -> Parser:
    """Return the parser of a whole program, with `--version`.

    Args:
        prog: the program as people type it; errors begin with it.
        description: one sentence.
        distribution: the installed distribution that has the version.
    """
    parser = Parser(prog=prog, description=description)
    parser.add_argument("--version", action=AddVersion, distribution=distribution)
    return parser


def run(
    parser: Parser, arguments: Sequence[str] | None = None, *, misuses: Errors = (), failures: Errors = ()
) -> int:
    """Parse the command line, call the `carry_out` that the chosen command set, and return the exit status.

    Args:
        parser: of the program.
        arguments: the words after the program's name; None for those of this process.
        misuses: errors that mean a wrong command line or setting, besides `MisuseError`.
        failures: errors that mean a failed command, besides `FailedError` and `OSError`.
    """
    misuses_all: Errors = (MisuseError, *misuses)
    failures_all: Errors = (FailedError, OSError, *failures)
    try:
        options = parser.parse_args(arguments)
        return int(options.carry_out(options) or EXIT_DONE)
    except misuses_all as error:
        return complain(parser.prog, error, EXIT_MISUSED)
    except BrokenPipeError:
        # The reader of our output closed it. Write nothing more to it, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except failures_all as error:
        return complain(parser.prog, error, EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_FAILED


def complain(prog: str, error: BaseException, status: int) -> int:
    """Write `program: message` to standard error, one line, and return the status."""
    sys.stderr.write(f"{prog}: {one_line(error_text(error))}\n")
    return status
