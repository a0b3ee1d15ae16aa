"""`accelscope completion`: a script that lets a shell complete commands, options and their values."""

import argparse
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from accelscope import __version__

# --- completion words ------------------------------------------------------------
# What can follow on a command line, taken from argparse's own description of the commands.


_OF_FOLDERS = ("_root", "_folder", "_dir")  # ends of the names of settings


class Paths(StrEnum):
    """What of the file system a value may be."""

    NONE = ""
    FILE = "file"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Value:
    """What may stand as the value of an option, or at a place."""

    words: tuple[str, ...] = ()
    paths: Paths = Paths.NONE
    several: bool = False  # of the words, with commas between


@dataclass(frozen=True, slots=True)
class Option:
    flags: tuple[str, ...]
    value: Value | None  # None: it takes none
    help: str


@dataclass(frozen=True, slots=True)
class Command:
    name: str  # with those above it: `fleet token create`; empty: accelscope itself
    options: tuple[Option, ...]
    commands: dict[str, str]  # what may follow, and what it is for
    places: tuple[Value, ...]  # without an option, from left to right


def commands_below(parser: argparse.ArgumentParser, name: str = "") -> Iterator[Command]:
    """It and all below it."""
    options, places, below = [], [], None
    for action in parser._actions:  # argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):
            below = action
        elif action.help == argparse.SUPPRESS:
            continue
        elif action.option_strings:
            value = None if action.nargs == 0 else _value(action, name)
            options.append(Option(tuple(action.option_strings), value, _first_sentence(action.help)))
        else:
            places.append(_value(action, name))
    summaries = {} if below is None else _summaries(below)
    yield Command(name, tuple(options), summaries, tuple(places))
    for word, follower in below.choices.items() if below is not None else ():
        yield from commands_below(follower, f"{name} {word}".lstrip())


def _summaries(below: "argparse._SubParsersAction[argparse.ArgumentParser]") -> dict[str, str]:
    return {action.dest: action.help or "" for action in below._choices_actions}


def _value(action: argparse.Action, command: str) -> Value:
    """Settings have no `choices`: they check their values themselves, and name them in the metavar."""
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    if action.choices is not None:
        return Value(tuple(map(str, action.choices)))
    if metavar.startswith("{"):
        words, _, rest = metavar[1:].partition("}")
        return Value(tuple(words.split(",")), several=rest == ",...")
    if metavar == "DIR" or (metavar == "PATH" and action.dest.endswith(_OF_FOLDERS)):
        return Value(paths=Paths.FOLDER)
    if metavar in ("PATH", "FILE"):
        return Value(paths=Paths.FILE)
    return Value(_known_names(command, metavar), Paths.FILE if metavar == "NODE" else Paths.NONE)


def _known_names(command: str, metavar: str) -> tuple[str, ...]:
    """Of what the program has lists of, and checks itself."""
    first = command.partition(" ")[0]
    if (first, metavar) == ("parse", "SOURCE"):
        from accelscope.parsing import sources  # noqa: PLC0415 - completion alone needs them here

        return tuple(sources())
    if (first, metavar) == ("simulate", "NODE"):
        from accelscope.simulate import ready_made  # noqa: PLC0415

        return tuple(ready_made(None))
    if (command, metavar) == ("simulate fault", "KIND"):
        from accelscope.simulate import FaultKind  # noqa: PLC0415

        return tuple(FaultKind)
    if (command, metavar) == ("simulate fleet-fault", "KIND"):
        from accelscope.simulate.fleet.faults import DEVICE_FAULTS, FleetFault  # noqa: PLC0415

        return (*FleetFault, *DEVICE_FAULTS)
    return ()


def _first_sentence(text: str | None) -> str:
    """Descriptions stand beside their option, in one line."""
    return (text or "").replace("%%", "%").partition(". ")[0].rstrip(".")


# --- completion scripts ------------------------------------------------------------
# The same knowledge for bash, zsh and fish. No shell asks the program while somebody types.


_HEAD = f"# Completion of accelscope {__version__}: made by `accelscope completion`.\n"

# What stands at a point of the line: words, @file, @folder or @any, for something that nobody knows. After
# @several any number of the words, with commas between.
_KNOWS = """\
_accelscope_knows() {{
    answer=
    case "$1:$2" in
{cases}
    esac
}}
"""

# Which command the words typed so far have come to, and of which option the next is the value. The word that
# is being typed is $current.
_WALK = """\
    for word in "${typed[@]}"; do
        if [[ $word == "=" ]]; then
            continue
        elif [[ -n $option ]]; then
            option=
        elif [[ $word == -* ]]; then
            _accelscope_knows "$command" "$word"
            [[ -n $answer ]] && option=$word
        else
            _accelscope_knows "$command" commands
            if [[ " $answer " == *" $word "* ]]; then
                command="${command:+$command }$word"
            else
                place=$((place + 1))
            fi
        fi
    done
    if [[ -n $option ]]; then
        _accelscope_knows "$command" "$option"
    elif [[ $current == -* ]]; then
        _accelscope_knows "$command" options
    else
        _accelscope_knows "$command" commands
        [[ -n $answer ]] || _accelscope_knows "$command" "$place"
        [[ -n $answer ]] || _accelscope_knows "$command" options
    fi
"""

_BASH = (
    """\
_accelscope() {
    local answer="" command="" option="" place=1 word before="" current=${COMP_WORDS[COMP_CWORD]}
    local -a typed=("${COMP_WORDS[@]:1:COMP_CWORD-1}") words
    [[ $current == "=" ]] && current=
"""
    + _WALK
    + """\
    read -ra words <<<"$answer"
    COMPREPLY=()
    for word in "${words[@]}"; do
        case $word in
            @any) ;;
            @several) before=${current%"${current##*,}"} ;;
            @file) compopt -o default ;;
            @folder) compopt -o dirnames ;;
            *)
                [[ $before$word == "$current"* && ,$before != *",$word,"* ]] &&
                    COMPREPLY+=("$before$word")
                ;;
        esac
    done
    return 0
}
complete -F _accelscope accelscope
"""
)

_ZSH = (
    """\
_accelscope() {
    local answer="" command="" option="" place=1 word before="" current=$PREFIX
    # Here --option=value is one word.
    local -a typed=("${(@)words[2,CURRENT-1]:#-*=*}")
    if [[ $current == -*=* ]]; then
        typed+=("${current%%=*}")
        compset -P '*='
        current=$PREFIX
    fi
"""
    + _WALK
    + """\
    for word in ${=answer}; do
        case $word in
            @any) ;;
            @several) before=${current%"${current##*,}"}; compset -P '*,' ;;
            @file) _files ;;
            @folder) _files -/ ;;
            *) [[ ,$before != *",$word,"* ]] && compadd -- "$word" ;;
        esac
    done
}
if [[ $funcstack[1] == _accelscope ]]; then
    _accelscope "$@"
else
    compdef _accelscope accelscope
fi
"""
)

_FISH = """\
function __accelscope_at --description 'Is this the command that the line has come to?'
    set --local at
    set --local words (commandline --current-process --tokenize --cut-at-cursor)
    for word in $words[2..]
        if contains -- (string trim -- "$at $word") $__accelscope_commands
            set at (string trim -- "$at $word")
        end
    end
    test "$at" = "$argv[1]"
end
complete --command accelscope --no-files
"""


def bash(commands: Iterable[Command]) -> str:
    return _HEAD + _KNOWS.format(cases=_cases(commands)) + _BASH


def zsh(commands: Iterable[Command]) -> str:
    return "#compdef accelscope\n" + _HEAD + _KNOWS.format(cases=_cases(commands)) + _ZSH


def fish(commands: Iterable[Command]) -> str:
    every = list(commands)
    names = " ".join(shlex.quote(command.name) for command in every if command.name)
    lines = [line for command in every for line in _fish_lines(command)]
    return f"{_HEAD}set --global __accelscope_commands {names}\n{_FISH}" + "\n".join(lines) + "\n"


SCRIPTS: dict[str, Callable[[Iterable[Command]], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _cases(commands: Iterable[Command]) -> str:
    lines = []
    for command in commands:
        if command.commands:
            lines.append(_case(command.name, ["commands"], " ".join(command.commands)))
        flags = [flag for option in command.options for flag in option.flags]
        lines.append(_case(command.name, ["options"], " ".join(flags)))
        by_answer: dict[str, list[str]] = {}
        for option in command.options:
            if option.value is not None:
                by_answer.setdefault(_answer(option.value), []).extend(option.flags)
        lines += [_case(command.name, asked, answer) for answer, asked in by_answer.items()]
        for number, place in enumerate(command.places, start=1):
            lines.append(_case(command.name, [str(number)], _answer(place)))
    return "\n".join(lines)


def _case(command: str, asked: Iterable[str], answer: str) -> str:
    patterns = "|".join(f'"{command}:{each}"' for each in asked)
    return f'        {patterns}) answer="{answer}" ;;'


def _answer(value: Value) -> str:
    words = [
        *(["@several"] if value.several else []),
        *value.words,
        *([f"@{value.paths}"] if value.paths else []),
    ]
    return " ".join(words) or "@any"


def _fish_lines(command: Command) -> Iterable[str]:
    begin = f"complete --command accelscope --condition {_quoted(f'__accelscope_at {_quoted(command.name)}')}"
    for name, summary in command.commands.items():
        yield f"{begin} --arguments {name} --description {_quoted(summary)}"
    for option in command.options:
        yield f"{begin} {_fish_option(option)} --description {_quoted(option.help)}"
    for place in command.places:
        if place.words or place.paths:
            yield begin + _fish_value(place)


def _fish_option(option: Option) -> str:
    flags = " ".join(
        f"--long-option {flag[2:]}" if flag.startswith("--") else f"--short-option {flag[1:]}"
        for flag in option.flags
    )
    if option.value is None:
        return flags
    needs = "--require-parameter" if option.value.paths is Paths.FILE else "--exclusive"
    return f"{flags} {needs}{_fish_value(option.value)}"


def _fish_value(value: Value) -> str:
    words = [f"(__fish_append , {' '.join(value.words)})"] if value.several else list(value.words)
    if value.paths is Paths.FOLDER:
        words.append("(__fish_complete_directories)")
    said = f" --arguments {_quoted(' '.join(words))}" if words else ""
    return f"{said} --force-files" if value.paths is Paths.FILE else said


def _quoted(text: str) -> str:
    """For fish, where a backslash stands before a quote inside quotes."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


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
