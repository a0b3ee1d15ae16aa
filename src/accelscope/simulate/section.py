"""Descriptions of simulated nodes and fleets as sections, whether from a file or from a command line."""

from collections.abc import Iterable
from typing import Self

from accelscope.config.document import Section
from accelscope.config.values import ConfigError


class DescriptionError(ConfigError):
    """A description that cannot be used."""


class Description(Section):
    error_type = DescriptionError

    def part(self, keys: Iterable[str], **more: object) -> Self:
        """A section in the same place with these keys, and more."""
        return type(self)({**{key: self.raw(key) for key in keys}, **more}, self.where, file=self.file)


class Options(Description):
    """Options of a command line that have the names of a description's keys."""

    def path(self, key: str) -> str:
        return key.upper() if key == "kind" else f"--{key}"

    def finish(self) -> None:
        for key in self.unread:
            raise self.error(key, "not for this kind of fault")
