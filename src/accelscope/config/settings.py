"""Settings: one declaration of a setting gives its flag, environment variable, YAML key and documentation.

    @dataclass(frozen=True, slots=True)
    class AgentSettings:
        exporter_port: int = setting(9400, PORT, "Port of the HTTP server.", group="HTTP")

`exporter_port` is `--exporter-port`, `EXPORTER_PORT` and `exporterPort`. A class may check settings against
each other in `__post_init__` by raising ConfigError. A flag overrides the environment, the environment the
file, the file the default.
"""

import argparse
import logging
import textwrap
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as fields_of
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from accelscope.config.log import fields
from accelscope.config.values import BadValue, Boolean, ConfigError, ConfigFile, Node, ValueKind, quoted
from accelscope.files import FileWatch

if TYPE_CHECKING:
    from accelscope.config.document import LinedMapping

RARELY_NEEDED = "Rarely needed"  # begins the names of groups that come last in --help and in the reference

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting; `name` is that of the field, or of an entry in the field `mapping`."""

    name: str
    default: Any
    kind: ValueKind[Any]
    help: str
    group: str
    env_aliases: tuple[str, ...]
    reloadable: bool
    metavar: str
    effective: Callable[[Any], object] | None = None
    deprecated: str = ""  # why it is not needed, or what to use instead
    mapping: str = ""

    def value(self, settings: object) -> Any:
        if self.mapping:
            return getattr(settings, self.mapping).get(self.name, self.default)
        return getattr(settings, self.name)

    def differs(self, settings: object, others: object) -> bool:
        """Whether this setting has another effect in one than in the other."""
        if self.value(settings) == self.value(others):
            return False
        return self.effective is None or self.effective(settings) != self.effective(others)

    @property
    def in_file(self) -> bool:
        return not isinstance(self.kind, ConfigFile)

    @property
    def default_text(self) -> str:
        return "" if self.default is None else self.kind.text(self.default)


def setting(
    default: T,
    kind: ValueKind[T],
    help: str,  # noqa: A002 - argparse's word for it
    *,
    group: str,
    env_aliases: tuple[str, ...] = (),
    reloadable: bool = True,
    metavar: str | None = None,
    effective: Callable[[Any], object] | None = None,
    deprecated: str = "",
) -> T:
    """Declare a field of a settings dataclass. Not `reloadable`: a new value in the file needs a restart.
    `effective` returns what the value amounts to in its settings: where the default depends on others, two
    values may mean the same. A `deprecated` setting still works; it is not in --help, comes last in the
    reference, and is reported in the log where it is set."""
    declared = Setting(
        name="",  # the field's
        default=default,
        kind=kind,
        help=help,
        group=group,
        env_aliases=env_aliases,
        reloadable=reloadable,
        metavar=metavar or kind.metavar,
        effective=effective,
        deprecated=deprecated,
    )
    # A factory, because dataclasses refuse defaults without a hash, such as a read-only mapping.
    return field(default_factory=lambda: default, metadata={"setting": declared})


def setting_mapping(declared: Iterable[Setting]) -> Mapping[str, Any]:
    """Declare a field that maps names of settings to their values, for settings declared elsewhere."""
    members = tuple(declared)
    defaults = MappingProxyType({each.name: each.default for each in members})
    return field(default_factory=lambda: defaults, metadata={"settings": members})


def settings_of(cls: type) -> tuple[Setting, ...]:
    """The declared settings of a dataclass, in their order."""
    found: list[Setting] = []
    for member in fields_of(cls):
        if "settings" in member.metadata:
            found += (replace(each, mapping=member.name) for each in member.metadata["settings"])
        else:
            found.append(replace(member.metadata["setting"], name=member.name))
    return tuple(found)


def make(cls: type[S], values: Mapping[str, Any]) -> S:
    """Settings of these values by name; the others have their defaults. Raises ConfigError."""
    arguments = dict(values)
    for declared in settings_of(cls):
        if declared.mapping:
            value = arguments.pop(declared.name, declared.default)
            arguments.setdefault(declared.mapping, {})[declared.name] = value
    return cls(**arguments)


def flag_name(name: str) -> str:
    return "--" + name.replace("_", "-")


def environment_name(name: str) -> str:
    return name.upper()


def key_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@dataclass(frozen=True, slots=True)
class LoadedSettings(Generic[S]):
    """Settings and where they came from."""

    settings: S
    file: str | None
    origins: Mapping[str, str]  # field name -> the spelling that set it: a flag, a variable, a file's key

    def log_deprecated(self, log: logging.Logger) -> None:
        """Report the deprecated settings that are set, even to their defaults: later versions reject them."""
        for declared in settings_of(type(self.settings)):
            if declared.deprecated and declared.name in self.origins:
                log.warning(
                    "%s is deprecated and will be removed: %s",
                    self.origins[declared.name],
                    declared.deprecated,
                )


def add_arguments(
    parser: argparse.ArgumentParser, cls: type, *, listed_by: str = "", which: str = ""
) -> None:
    """Add a flag per setting, in the settings' groups. argparse checks no value: errors are `load`'s. With
    `listed_by`, --help leaves them out and refers to the help of that command; `which` says which of its
    options apply."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for declared in _rarely_needed_last(settings_of(cls)):
        if not declared.kind.textual:
            continue
        if declared.group not in groups:
            groups[declared.group] = parser.add_argument_group(declared.group)
        action = _add_flag(groups[declared.group], declared)
        if listed_by:
            action.unlisted_help, action.help = action.help, argparse.SUPPRESS  # type: ignore[attr-defined]
    if listed_by:
        parser.epilog = textwrap.fill(
            f"The options of {listed_by}{which and ' '}{which} apply here too, as do their environment "
            f"variables and the configuration file. {listed_by} --help lists them.",
            width=84,
        )


def _rarely_needed_last(declarations: Iterable[Setting]) -> list[Setting]:
    return sorted(declarations, key=lambda declared: declared.group.startswith(RARELY_NEEDED))


def argument(kind: ValueKind[T]) -> Callable[[str], T]:
    """A kind as argparse's `type`, for options of a command that are not settings."""

    def parse(text: str) -> T:
        try:
            return kind.read(text)
        except BadValue as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parse


def _add_flag(group: argparse._ArgumentGroup, declared: Setting) -> argparse.Action:
    name, flag, text = declared.name, flag_name(declared.name), _flag_help(declared)
    if isinstance(declared.kind, Boolean):
        group.add_argument(
            f"--no-{flag[2:]}", dest=name, action="store_const", const="false", help=argparse.SUPPRESS
        )
        return group.add_argument(flag, dest=name, action="store_const", const="true", help=text)
    action = "append" if declared.kind.repeatable else "store"
    return group.add_argument(flag, dest=name, action=action, metavar=declared.metavar, help=text)


def _flag_help(declared: Setting) -> str:
    if declared.deprecated:
        return argparse.SUPPRESS
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
) -> LoadedSettings[S]:
    """Make the settings. `arguments` are argparse's, None where not given. Without `file`, the setting of
    kind CONFIG_FILE names it, if the class has one. An empty environment variable and a null in the file
    count as not given. Raises ConfigError."""
    flags = vars(arguments) if isinstance(arguments, argparse.Namespace) else arguments
    declarations = settings_of(cls)
    if file is None:
        file = _file_named(declarations, flags, environ)
    document = None if file is None else _document(file, declarations)

    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for declared in declarations:
        given = _text_given(declared, flags, environ)
        if given is None and document is not None:
            key = key_name(declared.name)
            if (node := document.get(key)) is not None:
                given = f"{file}:{document.lines[key]}: {key}", node
        if given is not None:
            origins[declared.name] = given[0]
            values[declared.name] = _read(declared.kind, *given)
    return LoadedSettings(make(cls, values), file, origins)


def _file_named(
    declarations: tuple[Setting, ...], flags: Mapping[str, object], environ: Mapping[str, str]
) -> str | None:
    for declared in declarations:
        if isinstance(declared.kind, ConfigFile):
            given = _text_given(declared, flags, environ)
            if given is not None:
                return str(_read(declared.kind, *given))
            return None if declared.default is None else str(declared.default)
    return None


def _text_given(
    declared: Setting, flags: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[str, Node] | None:
    """The flag or the variable that sets it, and its text."""
    if not declared.kind.textual:
        return None
    value = flags.get(declared.name)
    if value is not None:
        spelling, text = flag_name(declared.name), ",".join(value) if isinstance(value, list) else str(value)
    else:
        variables = (environment_name(declared.name), *declared.env_aliases)
        spelling = next((variable for variable in variables if environ.get(variable)), "")
        if not spelling:
            return None
        text = environ[spelling]
    # Bytes of the command line or the environment that are not UTF-8 reach Python as lone surrogates.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError(f"{spelling}: the value is not UTF-8")
    return spelling, text


def _read(kind: ValueKind[T], spelling: str, node: Node) -> T:
    try:
        return kind.read(node)
    except BadValue as error:
        raise ConfigError(f"{spelling}: {error}") from None


def _document(file: str, declarations: tuple[Setting, ...]) -> "LinedMapping":
    from accelscope.config.document import nearest, read_document  # noqa: PLC0415 - imports PyYAML

    document = read_document(file)
    outside = {key_name(declared.name): declared for declared in declarations if not declared.in_file}
    known = [key_name(declared.name) for declared in declarations if declared.in_file]
    for key, line in document.lines.items():
        if key in outside:
            problem = f"{key} cannot be set in the file; use {flag_name(outside[key].name)}"
            raise ConfigError(problem, file=file, line=line)
        if key not in known:
            near = nearest(key, known)
            hint = f"did you mean {near}?" if near else "see --help for the settings"
            raise ConfigError(f"unknown key {quoted(key)}; {hint}", file=file, line=line)
    return document


@dataclass(frozen=True, slots=True)
class Change(Generic[S]):
    """What became of a new file. With `error` the old settings stay in force; with neither an error nor
    anything else, a file that was bad is good again."""

    settings: S  # in force from now on
    changed: tuple[str, ...] = ()  # keys whose new value is in `settings`
    needs_restart: tuple[str, ...] = ()  # keys whose new value is not
    restart_withdrawn: tuple[str, ...] = ()  # keys that waited for a restart and are back at what is in force
    error: str | None = None  # one line

    def write_to(self, log: logging.Logger) -> None:
        if self.error is not None:
            log.error("the new settings file is bad, the old settings stay: %s", self.error)
            return
        if self.needs_restart:
            log.warning("settings that need a restart: %s", ", ".join(self.needs_restart))
        if self.restart_withdrawn:
            log.info("settings that no longer need a restart: %s", ", ".join(self.restart_withdrawn))
        changed = ",".join(self.changed) or "nothing"
        log.info("the settings file was taken up", extra=fields(changed=changed))


class Reloader(Generic[S]):
    """Watches the file that settings were loaded from; without a file it never reports anything.

    The agent's loop calls `poll()` as often as it likes: while nothing changes it costs a few `stat` calls.
    """

    def __init__(
        self,
        loaded: LoadedSettings[S],
        arguments: argparse.Namespace | Mapping[str, object],
        environ: Mapping[str, str],
    ) -> None:
        self._file = loaded.file
        self._watch = FileWatch(loaded.file) if loaded.file is not None else None
        self._arguments = arguments
        self._environ = environ
        self._in_force = loaded.settings
        self._wanted = loaded.settings  # of the last valid file, with settings that need a restart
        self._error: str | None = None
        # The file may have changed between `load` and now, so the first poll reads it whatever it looks like.
        self._unread = True

    @property
    def settings(self) -> S:
        return self._in_force

    def poll(self) -> Change[S] | None:
        """What a changed file means, once per change; None while there is nothing new."""
        if self._watch is None:
            return None
        if not self._watch.changed() and not self._unread:
            return None
        self._unread = False
        try:
            loaded = load(type(self._in_force), self._arguments, self._environ, self._file)
            return self._taken(loaded.settings)
        except ConfigError as error:
            self._error = str(error)
            return Change(self._in_force, error=self._error)

    def _taken(self, wanted: S) -> Change[S] | None:
        changed: list[str] = []
        needs_restart: list[str] = []
        withdrawn: list[str] = []
        values: dict[str, object] = {}
        for declared in settings_of(type(wanted)):
            new, old = declared.value(wanted), declared.value(self._in_force)
            values[declared.name] = new if declared.reloadable else old
            if declared.reloadable:
                if new != old:
                    changed.append(key_name(declared.name))
            elif declared.differs(wanted, self._wanted):
                waits = declared.differs(wanted, self._in_force)
                (needs_restart if waits else withdrawn).append(key_name(declared.name))
        # May raise ConfigError too: new values need not go with those that wait for a restart.
        in_force = make(type(wanted), values)
        recovered = self._error is not None
        self._in_force, self._wanted, self._error = in_force, wanted, None
        if not (changed or needs_restart or withdrawn or recovered):
            return None
        return Change(in_force, tuple(changed), tuple(needs_restart), tuple(withdrawn))


def reference(cls: type) -> str:
    """Markdown: a table per group, in the order of declaration; rarely needed and deprecated settings come
    last."""
    groups: dict[str, list[Setting]] = {}
    deprecated = []
    for declared in _rarely_needed_last(settings_of(cls)):
        if declared.deprecated:
            deprecated.append(declared)
        else:
            groups.setdefault(declared.group, []).append(declared)
    tables = [_table(group, members) for group, members in groups.items()]
    if deprecated:
        tables.append(_table("Deprecated", deprecated))
    return "\n".join(tables)


def _table(group: str, members: list[Setting]) -> str:
    lines = [
        f"## {group}",
        "",
        "| flag | environment | key | default | allowed | what it is |",
        "|---|---|---|---|---|---|",
        *("| " + " | ".join(map(_escaped, _cells(each))) + " |" for each in members),
        "",
    ]
    return "\n".join(lines)


def _escaped(cell: str) -> str:
    """A bar would end the cell, and <name> would pass for markup."""
    return cell.replace("|", "\\|").replace("<", "&lt;")


def _cells(declared: Setting) -> tuple[str, ...]:
    flags, variables = [], []
    if declared.kind.textual:
        flags = [flag_name(declared.name)]
        if isinstance(declared.kind, Boolean):
            flags.append(f"--no-{flags[0][2:]}")
        variables = [environment_name(declared.name), *declared.env_aliases]
    keys = [key_name(declared.name)] if declared.in_file else []
    text = declared.help if declared.reloadable or not keys else f"{declared.help} A change needs a restart."
    if declared.deprecated:
        text = f"{text} Deprecated: {declared.deprecated}"
    default = [declared.default_text] if declared.default_text else []
    return (_code(flags), _code(variables), _code(keys), _code(default), declared.kind.allowed, text)


def _code(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
