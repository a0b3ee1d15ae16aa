"""Entry point: one command, sub-commands. A sub-command's module is imported only when it is the one."""

import sys

try:
    import argparse
    import os
    from collections.abc import Callable, Collection
    from importlib import import_module
    from itertools import pairwise
    from typing import Any, NoReturn

    from accelscope import __version__
    from accelscope.cli.output import to_the_last_line
except KeyboardInterrupt:  # before there is a main() that answers it
    sys.exit(130)

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
        self._given: list[str] | None = None  # while it parses

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """What nobody knows is refused by the parser of the command that it was given to, which can name its
        own help; argparse hands it up to the first."""
        if self._given is not None:  # one of the two rounds of parse_known_intermixed_args
            return super().parse_known_args(args, namespace)
        self._given = list(sys.argv[1:] if args is None else args)
        parse = super().parse_known_intermixed_args if self._may_mix() else super().parse_known_args
        try:
            parsed, unknown = parse(self._given, namespace)
        finally:
            self._given = None
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def _may_mix(self) -> bool:
        """Whether options may stand between words: not where a command follows, which has its own, nor with a
        --, which argparse forgets after its first round."""
        places = self._get_positional_actions()
        takes_rest = any(place.nargs in (argparse.PARSER, argparse.REMAINDER) for place in places)
        return bool(places) and not takes_rest and "--" not in (self._given or ())

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """A word that is no command may be the value of an option that is misspelt: that is what is wrong."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            for before, word in pairwise(self._given or ()):
                if word == value and _is_flag(before) and before not in self._option_string_actions:
                    self.error(f"unrecognized arguments: {before} {word}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _get_formatter(self) -> argparse.HelpFormatter:
        """With the width given: argparse asks for a formatter at every option, and without a width that loads
        half a mebibyte of shutil and compressors, which an agent would keep."""
        formatter: Callable[..., argparse.HelpFormatter] = self.formatter_class
        return formatter(prog=self.prog, width=_columns() - 2)


def _is_flag(word: str) -> bool:
    """Rather than a number below zero."""
    return word.startswith("-") and word.lstrip("-")[:1].isalpha() and "=" not in word


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
    try:
        return to_the_last_line(lambda: _carry_out(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # who reads what it says of itself has gone: `accelscope capture 2>&1 | head`
        sys.stderr.close()
        return 141


def _carry_out(given: list[str]) -> int:
    chosen = [word for word in given if not word.startswith("-")][:1]
    parsed = make_parser(chosen).parse_args(given)
    code: int = parsed.run(parsed)
    return code


if __name__ == "__main__":
    sys.exit(main())
