"""`accelscope completion`: prints a shell script that completes commands, options and their values."""

import argparse
from collections.abc import Iterator

from accelscope.cli.output import missing, refuse

SHELLS = ("bash", "zsh", "fish")

DESCRIPTION = """\
Prints a script that completes commands, options, values and paths. It belongs to this
version of accelscope; print it again after an upgrade.

  source <(accelscope completion bash)      this shell only; in ~/.bashrc: every shell
  accelscope completion bash > ~/.local/share/bash-completion/completions/accelscope
  accelscope completion zsh > DIR/_accelscope       a folder of $fpath, before compinit
  accelscope completion fish > ~/.config/fish/completions/accelscope.fish"""

_FOLDER_SETTINGS = ("_root", "_folder", "_dir")  # how the names of settings end that are folders


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "completion",
        help="print a script that completes this command in a shell",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from accelscope.cli.main import COMMANDS, make_parser  # noqa: PLC0415 - it imports this module by name

    if (lacking := missing("top")) is not None:
        return refuse("completion", lacking)
    print(completion_script(make_parser(COMMANDS), arguments.shell))
    return 0


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    import shtab  # noqa: PLC0415 - an optional dependency

    for command, action in _actions(parser):
        action.help = getattr(action, "unlisted_help", action.help)  # shtab leaves out what --help does
        if action.choices is None and action.nargs != 0:
            metavar = action.metavar if isinstance(action.metavar, str) else ""
            action.choices = _values(command, metavar) or None
            if metavar == "DIR" or (metavar == "PATH" and action.dest.endswith(_FOLDER_SETTINGS)):
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]  # read by shtab
            elif metavar in ("PATH", "FILE") or (command == "compare" and metavar in ("OLD", "NEW")):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))


def _actions(parser: argparse.ArgumentParser, command: str = "") -> Iterator[tuple[str, argparse.Action]]:
    """Arguments of a command and of those below it. argparse has no public way to list them."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from _actions(below, f"{command} {name}".lstrip())
        else:
            yield command, action


def _values(command: str, metavar: str) -> tuple[str, ...]:
    """Values of an option or argument that the program checks itself instead of argparse."""
    if metavar.startswith("{"):
        return tuple(metavar[1:].partition("}")[0].split(","))
    match command, metavar:
        case "parse", "SOURCE":
            from accelscope.parsing import sources  # noqa: PLC0415 - only completion needs them here

            return tuple(sources())
        case _, "NODE" if command.startswith("simulate"):
            from accelscope.simulate import ready_made  # noqa: PLC0415

            return tuple(ready_made(None))
        case "simulate fault", "KIND":
            from accelscope.simulate import FaultKind  # noqa: PLC0415

            return tuple(FaultKind)
        case "simulate fleet-fault", "KIND":
            from accelscope.simulate.fleet.faults import NODE_FAULTS, FleetFaultKind  # noqa: PLC0415

            return (*FleetFaultKind, *NODE_FAULTS)
    return ()
