"""From flags, environment and file to a settings object. A flag outweighs the environment, the environment
the file, the file the default."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from accelscope.config.declaration import (
    ConfigError,
    Setting,
    environment_name,
    flag_name,
    key_name,
    settings_of,
)
from accelscope.config.kind import BadValue, Node, quoted
from accelscope.config.scalars import Boolean, ConfigFile

if TYPE_CHECKING:
    from accelscope.config.settingsfile import Entry

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Loaded(Generic[S]):
    """Settings and where they came from."""

    settings: S
    file: str | None
    origins: Mapping[str, str]  # field name -> the spelling that set it: a flag, a variable, a file's key


@dataclass(frozen=True, slots=True)
class _Given:
    """One value as the user wrote it."""

    spelling: str
    node: Node
    from_file: bool = False


def add_arguments(parser: argparse.ArgumentParser, cls: type) -> None:
    """Add a flag per setting, in the settings' groups. argparse checks no value: errors are `load`'s."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for declared in settings_of(cls):
        if not declared.kind.textual:
            continue
        if declared.group not in groups:
            groups[declared.group] = parser.add_argument_group(declared.group)
        _add_flag(groups[declared.group], declared)


def _add_flag(group: argparse._ArgumentGroup, declared: Setting) -> None:
    name, flag, text = declared.name, flag_name(declared.name), _flag_help(declared)
    if isinstance(declared.kind, Boolean):
        group.add_argument(flag, dest=name, action="store_const", const="true", help=text)
        group.add_argument(
            f"--no-{flag[2:]}", dest=name, action="store_const", const="false", help=argparse.SUPPRESS
        )
    else:
        action = "append" if declared.kind.repeatable else "store"
        group.add_argument(flag, dest=name, action=action, metavar=declared.metavar, help=text)


def _flag_help(declared: Setting) -> str:
    facts = [declared.help]
    if isinstance(declared.kind, Boolean):
        facts.append(f"--no-{flag_name(declared.name)[2:]} turns it off.")
    if declared.default_text:
        facts.append(f"Default: {declared.default_text}.")
    facts.append(f"Environment: {', '.join((environment_name(declared.name), *declared.env_aliases))}.")
    return " ".join(facts).replace("%", "%%")


def load(
    cls: type[S],
    arguments: argparse.Namespace | Mapping[str, object],
    environ: Mapping[str, str],
    file: str | None = None,
) -> Loaded[S]:
    """Make the settings. `arguments` are argparse's, None where not given. Without `file`, the setting of
    kind CONFIG_FILE names it, if the class has one. An empty environment variable and a null in the file
    count as not given. Raises ConfigError."""
    flags = vars(arguments) if isinstance(arguments, argparse.Namespace) else arguments
    declarations = settings_of(cls)
    if file is None:
        file = _file_named(declarations, flags, environ)
    entries = {} if file is None else _file_entries(file, declarations)

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for declared in declarations:
        given = _given(declared, flags, environ, file, entries)
        if given is not None:
            values[declared.name] = _parsed(declared, given)
            origins[declared.name] = given.spelling
    return Loaded(cls(**values), file, origins)


def _file_named(
    declarations: tuple[Setting, ...], flags: Mapping[str, object], environ: Mapping[str, str]
) -> str | None:
    for declared in declarations:
        if isinstance(declared.kind, ConfigFile):
            given = _given(declared, flags, environ, None, {})
            if given is not None:
                return str(_parsed(declared, given))
            return None if declared.default is None else str(declared.default)
    return None


def _file_entries(file: str, declarations: tuple[Setting, ...]) -> dict[str, "Entry"]:
    from accelscope.config.settingsfile import read_settings_file  # noqa: PLC0415 - brings PyYAML

    entries = read_settings_file(file)
    _refuse_unknown(file, entries, declarations)
    return entries


def _given(
    declared: Setting,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    file: str | None,
    entries: Mapping[str, "Entry"],
) -> _Given | None:
    """The value that counts."""
    if declared.kind.textual:
        value = flags.get(declared.name)
        if value is not None:
            text = ",".join(value) if isinstance(value, list) else str(value)
            return _Given(flag_name(declared.name), text)
        for variable in (environment_name(declared.name), *declared.env_aliases):
            if environ.get(variable):
                return _Given(variable, environ[variable])
    key = key_name(declared.name)
    entry = entries.get(key)
    if entry is None or entry.node is None:
        return None
    return _Given(f"{file}:{entry.line}: {key}", entry.node, from_file=True)


def _parsed(declared: Setting, given: _Given) -> Any:
    kind = declared.kind
    if not given.from_file and not str(given.node).isprintable() and _has_surrogates(str(given.node)):
        raise ConfigError(f"{given.spelling}: the value is not UTF-8")
    try:
        return kind.parse_node(given.node) if given.from_file else kind.parse(str(given.node))
    except BadValue as error:
        detail = f"; {error}" if str(error) else ""
        problem = f"{_shown(given.node)} is not {kind.allowed}{detail}"
        raise ConfigError(f"{given.spelling}: {problem}") from None


def _has_surrogates(text: str) -> bool:
    """Bytes of the command line or the environment that are not UTF-8 reach Python as lone surrogates."""
    return any("\ud800" <= character <= "\udfff" for character in text)


def _shown(node: Node) -> str:
    if isinstance(node, str):
        return quoted(node)
    return "a mapping" if isinstance(node, Mapping) else "a list"


def _refuse_unknown(file: str, entries: Mapping[str, "Entry"], declarations: tuple[Setting, ...]) -> None:
    outside = {key_name(declared.name): declared for declared in declarations if not declared.in_file}
    known = [key_name(declared.name) for declared in declarations if declared.in_file]
    for key, entry in entries.items():
        if key in known:
            continue
        where = f"{file}:{entry.line}: "
        if key in outside:
            flag = flag_name(outside[key].name)
            raise ConfigError(f"{where}{key} cannot be set in the file; use {flag}")
        raise ConfigError(f"{where}unknown key {quoted(key)}{_nearest(key, known)}")


def _nearest(key: str, known: list[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - needed for this error only

    lowered = {name.lower(): name for name in known}
    folded = key.replace("_", "").replace("-", "").lower()
    matches = get_close_matches(folded, lowered, n=1, cutoff=0.5)
    return f"; did you mean {lowered[matches[0]]}?" if matches else "; see --help for the settings"
