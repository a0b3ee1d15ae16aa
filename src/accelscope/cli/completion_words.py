"""What can follow on a command line, taken from argparse's own description of the commands."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

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
        from accelscope.parsing.registry import sources  # noqa: PLC0415 - completion alone needs them here

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
