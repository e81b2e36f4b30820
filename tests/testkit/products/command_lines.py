"""All command lines of the project: each program, its commands and their options, as its parser has them."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from controller_core.command_line.program import Parser
from controller_core.server.cli import main as controller_core
from ha_sidecar import cli as ha_sidecar
from rocketmq_operator import cli as rocketmq_operator
from rocketmq_operator.plugin import cli as plugin
from slo_pipeline import cli as slo_pipeline

Main = Callable[[Sequence[str]], int]

MAINS: Final[dict[str, Main]] = {
    "controller-core": controller_core.main,
    "ha-sidecar": ha_sidecar.main,
    "rocketmq-operator": rocketmq_operator.main,
    "slo-pipeline": slo_pipeline.main,
    "kubectl rmqha": plugin.main,
}
"""The programs by the name with which their errors begin."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option or argument of one command.

    Attributes:
        program: its name in `MAINS`.
        command: one or more words, without options; empty for the program's own.
        action: as argparse has it.
    """

    program: str
    command: str
    action: argparse.Action

    @property
    def name(self) -> str:
        """The long spelling; the metavar of an argument without dashes."""
        long = [one for one in self.action.option_strings if one.startswith("--")]
        return long[0] if long else str(self.action.metavar or self.action.dest)

    @property
    def type_name(self) -> str:
        """What argparse makes of a value."""
        if self.action.nargs == 0:
            return "flag"
        kind: Any = self.action.type or str
        return str(getattr(kind, "__name__", kind))

    @property
    def row(self) -> str:
        """One line of the table: program, command, spellings, value."""
        spellings = ", ".join(self.action.option_strings) or self.name
        place = f"{self.program:<18} {self.command:<14}"
        return f"{place} {spellings:<24} {self.type_name:<18} {self.value}".rstrip()

    @property
    def value(self) -> str:
        """What `--help` shows for the value; empty for a flag."""
        if self.action.nargs == 0:
            return ""
        return str(self.action.metavar or self.action.choices or "")


def commands() -> list[tuple[str, str]]:
    """Return each program with each of its commands."""
    return [(one, command) for one in MAINS for command, _ in _parsers(one)]


@cache
def options() -> tuple[Option, ...]:
    """Return every option of every command, without `--help`."""
    return tuple(
        Option(one, command, action)
        for one in MAINS
        for command, parser in _parsers(one)
        for action in parser._actions
        if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    )


@cache
def _parsers(name: str) -> tuple[tuple[str, argparse.ArgumentParser], ...]:
    return tuple(_walk("", parser_of(name)))


def parser_of(name: str) -> Parser:
    """Return the parser of a whole program, of `slo-pipeline` with every branch imported."""
    if name == "slo-pipeline":
        return slo_pipeline.parser(*slo_pipeline.BRANCHES)
    return {
        "controller-core": controller_core.parser,
        "ha-sidecar": ha_sidecar.parser,
        "rocketmq-operator": rocketmq_operator.parser,
        "kubectl rmqha": plugin.parser,
    }[name]()


def _walk(command: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield command, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, child in action.choices.items():
                yield from _walk(f"{command} {word}".strip(), child)


if __name__ == "__main__":
    sys.stdout.writelines(f"{option.row}\n" for option in options())
