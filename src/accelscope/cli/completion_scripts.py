"""The same knowledge for bash, zsh and fish. No shell asks the program while somebody types."""

import shlex
from collections.abc import Callable, Iterable

from accelscope import __version__
from accelscope.cli.completion_words import Command, Option, Paths, Value

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
