"""One declaration of a setting, from which its flag, environment variable, YAML key and documentation follow.

    @dataclass(frozen=True, slots=True)
    class AgentSettings:
        exporter_port: int = setting(9400, PORT, "Port of the HTTP server.", group="HTTP")

`exporter_port` is `--exporter-port`, `EXPORTER_PORT` and `exporterPort`. A class may check settings against
each other in `__post_init__` by raising ConfigError.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from accelscope.config.kind import Kind
from accelscope.config.scalars import ConfigFile

T = TypeVar("T")


class ConfigError(Exception):
    """Settings that cannot be used. The text is one line that names the setting as the user wrote it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A declared setting; `name` is that of the field."""

    name: str
    default: Any
    kind: Kind[Any]
    help: str
    group: str
    env_aliases: tuple[str, ...]
    reloadable: bool
    metavar: str
    effective: Callable[[Any], object] | None = None

    def differs(self, settings: object, others: object) -> bool:
        """Whether this setting has another effect in one than in the other."""
        if getattr(settings, self.name) == getattr(others, self.name):
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
    kind: Kind[T],
    help: str,  # noqa: A002 - argparse's word for it
    *,
    group: str,
    env_aliases: tuple[str, ...] = (),
    reloadable: bool = True,
    metavar: str | None = None,
    effective: Callable[[Any], object] | None = None,
) -> T:
    """Declare a field of a settings dataclass. Not `reloadable`: a new value in the file needs a restart.
    `effective` returns what the value amounts to in its settings: where the default depends on others, two
    values may mean the same."""
    declared = Setting(
        name="",
        default=default,
        kind=kind,
        help=help,
        group=group,
        env_aliases=env_aliases,
        reloadable=reloadable,
        metavar=metavar or kind.metavar,
        effective=effective,
    )
    # A factory, because dataclasses refuse defaults without a hash, such as a read-only mapping.
    return field(default_factory=lambda: default, metadata={"setting": declared})


def settings_of(cls: type) -> tuple[Setting, ...]:
    """The declared settings of a dataclass, in their order."""
    return tuple(replace(member.metadata["setting"], name=member.name) for member in fields(cls))


def flag_name(name: str) -> str:
    return "--" + name.replace("_", "-")


def environment_name(name: str) -> str:
    return name.upper()


def key_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
