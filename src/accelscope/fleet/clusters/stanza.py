"""One named part of a kubeconfig, with its values by type and its paths resolved."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelscope.config import ConfigError
from accelscope.fleet.clusters.server import Material


@dataclass(frozen=True, slots=True)
class Stanza:
    """A named cluster, user or context, and the file that it stands in. Never shown: it may hold keys."""

    where: str  # file and name, for errors
    folder: Path  # paths in it are relative to this
    fields: Mapping[str, object] = field(repr=False)

    def text(self, key: str) -> str | None:
        value = self.fields.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise self.error(f"{key} is not a text")
        return value

    def flag(self, key: str) -> bool:
        value = self.fields.get(key)
        if value in (None, "", "false", "False", False):
            return False
        if value in ("true", "True", True):
            return True
        raise self.error(f"{key} is neither true nor false")

    def mapping(self, key: str) -> Mapping[str, object] | None:
        value = self.fields.get(key)
        if value is None or value == "":
            return None
        if not isinstance(value, dict):
            raise self.error(f"{key} has no keys with values")
        return value

    def entries(self, key: str) -> Sequence[object]:
        value = self.fields.get(key)
        if value is None or value == "":
            return ()
        if not isinstance(value, list):
            raise self.error(f"{key} is not a list")
        return value

    def path(self, key: str) -> str | None:
        text = self.text(key)
        return None if text is None else str(self.folder / text)

    def material(self, key: str) -> Material | None:
        """`key` names a file, `key-data` is the content in base64, which goes first."""
        encoded = self.text(f"{key}-data")
        if encoded is not None:
            try:
                content = base64.b64decode("".join(encoded.split()), validate=True)
            except (binascii.Error, ValueError):
                raise self.error(f"{key}-data is not base64") from None
            return Material(f"{key}-data of {self.where}", content=content)
        path = self.path(key)
        return None if path is None else Material(path, path=path)

    def error(self, problem: str) -> ConfigError:
        return ConfigError(f"{self.where}: {problem}")
