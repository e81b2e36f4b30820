"""Shell completion of a program: `PROGRAM completion bash|zsh`, and candidates for kubectl's own completion.

The script comes from the parser through shtab, so a new option needs no work here. It is as old as the
program that printed it: a shell evaluates it at each start.

Never here: candidates that need a server, such as the names of groups.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

SHELLS: Final = ("bash", "zsh")


def add_completion(commands: Any, whole: Callable[[], argparse.ArgumentParser]) -> None:  # noqa: ANN401 - argparse names this type privately
    """Add the command `completion`.

    Args:
        commands: the program's sub-commands.
        whole: returns the parser of all commands; its `prog` is the file that the shell completes.
    """
    command = commands.add_parser("completion", help="print a script that completes commands and options")
    command.add_argument("shell", choices=SHELLS, help="the shell that evaluates the script")
    command.set_defaults(carry_out=lambda options: _print_script(whole(), options.shell))


def _print_script(parser: argparse.ArgumentParser, shell: str) -> int:
    # Imported here: no other command needs it.
    import shtab

    for action in _all_actions(parser):
        if action.type is Path:
            places = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
            action.complete = places  # type: ignore[attr-defined]  # shtab reads this attribute
    sys.stdout.write(shtab.complete(parser, shell=shell).rstrip() + "\n")
    return 0


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[tuple[str, str]]:
    """Return the words that can replace the last word, each with its help.

    Args:
        parser: of all commands.
        words: after the program's name; the last one is begun, or empty.
    """
    *before, begun = words or [""]
    pending: argparse.Action | None = None
    for word in before:
        if pending is not None:
            pending = None
        elif word.startswith("-"):
            action = parser._option_string_actions.get(word)
            pending = action if action is not None and action.nargs != 0 else None
        else:
            parser = _commands(parser).get(word, parser)
    if pending is not None:
        found = [(str(choice), "") for choice in pending.choices or ()]
    elif begun.startswith("-"):
        found = [(name, _help(one)) for name, one in parser._option_string_actions.items()]
    else:
        found = [(one.dest, _help(one)) for one in _command_actions(parser)]
        found += [
            (str(choice), "")
            for one in parser._actions
            if not one.option_strings and not isinstance(one, argparse._SubParsersAction)
            for choice in one.choices or ()
        ]
    return [(word, text) for word, text in found if word.startswith(begun)]


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%").partition("\n")[0]


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[Any]:
    return (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    return {name: child for one in _subparsers(parser) for name, child in one.choices.items()}


def _command_actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [choice for one in _subparsers(parser) for choice in one._choices_actions]


def _all_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    yield from parser._actions
    for child in _commands(parser).values():
        yield from _all_actions(child)
