"""Entry point. Only the module of the requested command is imported."""

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
except KeyboardInterrupt:  # before main() can handle it
    sys.exit(130)

COMMANDS = {
    "agent": "serve metrics of this node's accelerators for Prometheus",
    "capture": "save the masked output of this node's drivers for a bug report",
    "compare": "compare another exporter's page with the agent's page in its dialect",
    "completion": "print a script that lets a shell complete this command",
    "device-plugin": "offer this node's accelerators to its kubelet",
    "discover": "print or write node labels that describe this node's accelerators",
    "doctor": "check this node and explain problems",
    "files": "locate or copy the chart, manifests, dashboards, rules and systemd unit",
    "fleet": "serve the accelerators of many clusters through one API",
    "parse": "parse the saved output of a vendor's tool and print JSON",
    "simulate": "create nodes and clusters with simulated accelerators",
    "top": "show accelerators and their processes in the terminal",
}


class _Parser(argparse.ArgumentParser):
    """Reports errors in one line, and rejects abbreviations, which new options would break."""

    _options: argparse.ArgumentParser | None = None  # the options of a parser with commands
    _commands: Collection[str] = ()
    _has_words = False  # positional arguments
    _given: list[str] | None = None  # during parsing

    def __init__(self, **options: Any) -> None:
        # argparse creates a formatter for every option. Without a width it imports shutil and compressors,
        # half a mebibyte in the agent.
        formatter = partial(options.get("formatter_class", argparse.HelpFormatter), width=_columns() - 2)
        super().__init__(**{**options, "allow_abbrev": False, "formatter_class": formatter})

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        self._has_words |= not str(names[0]).startswith("-")
        return super().add_argument(*names, **options)

    def add_subparsers(self, **options: Any) -> Any:
        """Must be called after the options are added."""
        self._options = argparse.ArgumentParser(
            parents=[self], add_help=False, allow_abbrev=False, exit_on_error=False
        )
        subparsers = super().add_subparsers(**options)
        self._commands = subparsers.choices
        return subparsers

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Reject unknown arguments in the parser of the command, so that the error refers to its --help."""
        if self._given is not None:  # one of the two rounds of parse_known_intermixed_args
            return super().parse_known_args(args, namespace)
        self._given = list(sys.argv[1:] if args is None else args)
        # Options may be between positional arguments, but not before a command, and not together with --,
        # which argparse drops in its first round.
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
    """Whether it is an option and not a negative number."""
    return word.startswith("-") and word.lstrip("-")[:1].isalpha() and "=" not in word


def _columns() -> int:
    """Width of the terminal, like shutil.get_terminal_size."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(1).columns or 80
    except OSError:
        return 80


def make_parser(commands: Collection[str]) -> argparse.ArgumentParser:
    """With the options of these commands; the others have only their names."""
    parser = _Parser(
        prog="accelscope",
        description="Monitor GPUs and NPUs in Kubernetes, with attribution to pods.",
        epilog="Run accelscope COMMAND --help for the options of a command. For completion in bash, run "
        "`source <(accelscope completion bash)`; zsh and fish are supported too.",
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
        return to_the_last_line(lambda: _run(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has exited: `accelscope capture 2>&1 | head`
        sys.stderr.close()
        return 141


def _run(given: list[str]) -> int:
    chosen = [word for word in given if not word.startswith("-")][:1]
    parsed = make_parser(chosen).parse_args(given)
    code: int = parsed.run(parsed)
    return code


if __name__ == "__main__":
    sys.exit(main())
