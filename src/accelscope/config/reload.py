"""Take up a changed settings file while running."""

import argparse
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from accelscope.config.declaration import ConfigError, key_name, settings_of
from accelscope.config.loading import Loaded, load
from accelscope.config.log import fields
from accelscope.filewatch import FileWatch

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Change(Generic[S]):
    """What became of a new file. With `error` the old settings stay in force; with neither an error nor
    anything else, a file that was bad is good again."""

    settings: S  # in force from now on
    changed: tuple[str, ...] = ()  # keys whose new value is in `settings`
    needs_restart: tuple[str, ...] = ()  # keys whose new value is not
    restart_withdrawn: tuple[str, ...] = ()  # keys that waited for a restart and are back at what is in force
    error: str | None = None  # one line

    def say(self, log: logging.Logger) -> None:
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
        loaded: Loaded[S],
        arguments: argparse.Namespace | Mapping[str, object],
        environ: Mapping[str, str],
    ) -> None:
        self._file = loaded.file
        self._watch = FileWatch(loaded.file) if loaded.file is not None else None
        self._arguments = arguments
        self._environ = environ
        self._in_force = loaded.settings
        self._wanted = loaded.settings  # as the last good file says, restart or not
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
            new, old = getattr(wanted, declared.name), getattr(self._in_force, declared.name)
            values[declared.name] = new if declared.reloadable else old
            if declared.reloadable:
                if new != old:
                    changed.append(key_name(declared.name))
            elif declared.differs(wanted, self._wanted):
                waits = declared.differs(wanted, self._in_force)
                (needs_restart if waits else withdrawn).append(key_name(declared.name))
        # May raise ConfigError too: new values need not go with those that wait for a restart.
        in_force = type(wanted)(**values)
        recovered = self._error is not None
        self._in_force, self._wanted, self._error = in_force, wanted, None
        if not (changed or needs_restart or withdrawn or recovered):
            return None
        return Change(in_force, tuple(changed), tuple(needs_restart), tuple(withdrawn))
