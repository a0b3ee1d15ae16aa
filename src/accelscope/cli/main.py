"""Entry point: one command, sub-commands. A sub-command's module is imported only when it is the one."""

import sys

try:
    import argparse
    import os
    from collections.abc import Collection
    from functools import partial
    from importlib import import_module
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
    """Reports errors in one line, and accepts no abbreviations: they would break when options are added."""

    _options: argparse.ArgumentParser | None = None  # only the options of a parser that has commands
    _commands: Collection[str] = ()
    _has_words = False  # arguments that are no options
    _given: list[str] | None = None  # while it parses

    def __init__(self, **options: Any) -> None:
        # argparse makes a formatter for every option, and one without a width imports shutil and compressors:
        # half a mebibyte that an agent would keep.
        formatter = partial(options.get("formatter_class", argparse.HelpFormatter), width=_columns() - 2)
        super().__init__(**{**options, "allow_abbrev": False, "formatter_class": formatter})

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        self._has_words |= not str(names[0]).startswith("-")
        return super().add_argument(*names, **options)

    def add_subparsers(self, **options: Any) -> Any:
        """After the options."""
        self._options = argparse.ArgumentParser(
            parents=[self], add_help=False, allow_abbrev=False, exit_on_error=False
        )
        subparsers = super().add_subparsers(**options)
        self._commands = subparsers.choices
        return subparsers

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Unknown arguments are rejected by the parser of the command that they were given to, which can name
        its own help; argparse would leave them to the first parser."""
        if self._given is not None:  # one of the two rounds of parse_known_intermixed_args
            return super().parse_known_args(args, namespace)
        self._given = list(sys.argv[1:] if args is None else args)
        # Options may stand between words, but not before a command, which has its own, and not with a --:
        # argparse forgets it after its first round.
        mixed = self._has_words and self._options is None and "--" not in self._given
        parse = super().parse_known_intermixed_args if mixed else super().parse_known_args
        try:
            parsed, unknown = parse(self._given, namespace)
        finally:
            self._given = None
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        if misspelt := self._misspelt_option():
            message = f"unrecognized arguments: {misspelt}"
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def _misspelt_option(self) -> str | None:
        """A misspelt option with its value, which argparse would report as an unknown command."""
        if self._options is None or not self._given:
            return None
        given = [word for word in self._given if word not in ("-h", "--help", "--version")]
        try:
            _, unknown = self._options.parse_known_args(given)
        except argparse.ArgumentError:
            return None
        if len(unknown) > 1 and _is_flag(unknown[0]) and unknown[1] not in self._commands:
            return f"{unknown[0]} {unknown[1]}"
        return None


def _is_flag(word: str) -> bool:
    """Rather than a number below zero."""
    return word.startswith("-") and word.lstrip("-")[:1].isalpha() and "=" not in word


def _columns() -> int:
    """Of the terminal, as shutil.get_terminal_size returns them."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
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
