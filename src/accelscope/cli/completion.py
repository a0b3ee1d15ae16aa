"""`accelscope completion`: a script that lets a shell complete commands, options and their values."""

import argparse

from accelscope.cli.completion_scripts import SCRIPTS
from accelscope.cli.completion_words import commands_below

DESCRIPTION = """\
Prints a script from which a shell learns the commands, their options, the values that
an option knows, and where a file or a folder is wanted. It belongs to this version.

  source <(accelscope completion bash)      this shell only; in ~/.bashrc: every one
  accelscope completion bash > ~/.local/share/bash-completion/completions/accelscope
  accelscope completion zsh > DIR/_accelscope       a folder of $fpath, before compinit
  accelscope completion fish > ~/.config/fish/completions/accelscope.fish"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print a script that lets a shell complete this command",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=tuple(SCRIPTS), metavar="SHELL", help=", ".join(SCRIPTS))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from accelscope.cli.main import COMMANDS, make_parser  # noqa: PLC0415 - it imports this module by name

    print(SCRIPTS[arguments.shell](commands_below(make_parser(COMMANDS))), end="")
    return 0
