"""Objects with resource versions, and what happened to them: what lists and watches are answered from."""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_FIRST_VERSION = 184_467
_KEPT_EVENTS = 4096


class Expired(Exception):
    """What happened after that version is no longer known."""


@dataclass(frozen=True, slots=True)
class Stored:
    fields: Mapping[str, str]  # what field selectors ask for
    text: bytes


@dataclass(frozen=True, slots=True)
class Change:
    version: int
    collection: str
    kind: str  # ADDED, MODIFIED, DELETED
    object: Stored


class History:
    """All collections of a cluster count their versions together, as they do in etcd."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._version = _FIRST_VERSION
        self._oldest = _FIRST_VERSION  # a watch may begin here
        self._changes: list[Change] = []
        self._objects: dict[str, dict[str, Stored]] = {}

    @property
    def version(self) -> int:
        return self._version

    def put(self, collection: str, key: str, fields: Mapping[str, str], document: Mapping[str, Any]) -> None:
        with self.changed:
            objects = self._objects.setdefault(collection, {})
            self._note(collection, key, "MODIFIED" if key in objects else "ADDED", fields, document)

    def remove(self, collection: str, key: str) -> None:
        with self.changed:
            stored = self._objects[collection][key]
            self._note(collection, key, "DELETED", stored.fields, json.loads(stored.text))
            del self._objects[collection][key]

    def get(self, collection: str, key: str) -> Stored | None:
        with self.changed:
            return self._objects.get(collection, {}).get(key)

    def _note(
        self,
        collection: str,
        key: str,
        kind: str,
        fields: Mapping[str, str],
        document: Mapping[str, Any],
    ) -> None:
        self._version += 1
        metadata = {**document["metadata"], "resourceVersion": str(self._version)}
        text = json.dumps({**document, "metadata": metadata}, separators=(",", ":")).encode()
        stored = Stored(fields, text)
        self._objects[collection][key] = stored
        self._changes.append(Change(self._version, collection, kind, stored))
        if len(self._changes) > _KEPT_EVENTS:
            self._oldest = self._changes[_KEPT_EVENTS // 2 - 1].version
            del self._changes[: _KEPT_EVENTS // 2]
        self.changed.notify_all()

    def forget(self) -> None:
        """What etcd's compaction does, after a change of something that nobody here watches."""
        with self.changed:
            self._version += 1
            self._oldest = self._version
            self._changes.clear()

    def listed(self, collection: str) -> tuple[int, list[Stored]]:
        """The version of it all, and the objects."""
        with self.changed:
            return self._version, list(self._objects.get(collection, {}).values())

    def check(self, version: int) -> None:
        """Whether a watch may begin there. Raises Expired."""
        if version < self._oldest:
            raise Expired

    def changes_after(self, collection: str, version: int) -> list[Change]:
        """To be called with `changed` held, by those who wait for it."""
        return [
            change for change in self._changes if change.version > version and change.collection == collection
        ]
