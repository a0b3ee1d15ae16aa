"""Entry point: one command, sub-commands. A sub-command's module is imported only when it is the one."""

import argparse
import os
import sys
from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any, NoReturn

from accelscope import __version__

COMMANDS = {
    "agent": "read this node's accelerators and serve Prometheus",
    "capture": "save what this node's drivers print, masked, for a bug report",
    "completion": "print a script that lets a shell complete this command",
    "device-plugin": "offer this node's accelerators to its kubelet",
    "discover": "print or write the labels that say which accelerators this node has",
    "doctor": "say what was looked for on this node, what was found, and what to do",
    "files": "say where chart, manifests, dashboards, rules and unit are, or copy them",
    "fleet": "serve the accelerators of many clusters as one",
    "parse": "print as JSON what is made of a tool's saved output",
    "simulate": "make nodes and clusters with simulated accelerators",
    "top": "show in the terminal what accelerators do, and who does it",
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and takes no abbreviations: they would break when options are added."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "allow_abbrev": False})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """What nobody knows is refused by the parser of the command that it was given to, which can name its
        own help; argparse hands it up to the first."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _get_formatter(self) -> argparse.HelpFormatter:
        """With the width given: argparse asks for a formatter at every option, and without a width that loads
        half a mebibyte of shutil and compressors, which an agent would keep."""
        formatter: Callable[..., argparse.HelpFormatter] = self.formatter_class
        return formatter(prog=self.prog, width=_columns() - 2)


def _columns() -> int:
    """Of the terminal, as shutil.get_terminal_size tells them."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def make_parser(commands: Collection[str]) -> argparse.ArgumentParser:
    """That of these commands; it knows the others' names only."""
    parser = _Parser(
        prog="accelscope",
        description="What every accelerator in a Kubernetes fleet is doing, and which pod is doing it.",
        epilog="accelscope COMMAND --help tells more about a command. In bash, Tab completes commands and "
        "options after `source <(accelscope completion bash)`; accelscope completion knows zsh and fish too.",
    )
    parser.add_argument("--version", action="version", version=f"accelscope {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command, summary in COMMANDS.items():
        if command in commands:
            import_module(f"accelscope.cli.{command.replace('-', '_')}").add_parser(subparsers)
        else:
            subparsers.add_parser(command, help=summary, add_help=False)
    return parser


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    chosen = [word for word in given if not word.startswith("-")][:1]
    parsed = make_parser(chosen).parse_args(given)
    try:
        code: int = parsed.run(parsed)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has gone: `accelscope parse ... | head`
        sys.stderr.close()
        return 141
    return code


if __name__ == "__main__":
    sys.exit(main())
