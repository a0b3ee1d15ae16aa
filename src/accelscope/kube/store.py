"""What is known of a collection of objects, from lists and events: no I/O here."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from accelscope.kube.errors import DecodeError, KubeError, Reason
from accelscope.kube.refusal import reason_of

T = TypeVar("T")


class ItemStore(Generic[T]):
    """The state behind a list and its watch. `items` is replaced whole and never changed, so a reader in
    another thread takes a reference; `version` increases whenever it is replaced. An object that cannot be
    decoded costs itself only."""

    def __init__(
        self,
        decode: Callable[[object], T],
        key: Callable[[T], str],
        keep: Callable[[T], bool] | None = None,
    ) -> None:
        self._decode = decode
        self._key = key
        self._keep = keep
        self.items: Mapping[str, T] = {}
        self.version = 0
        self.resource_version: str | None = None  # where a watch goes on; None: a list is needed
        self.rejected = 0  # objects that could not be decoded

    def read_list(self, documents: Iterable[object]) -> dict[str, T]:
        """What a list holds, still to be put in force by replace()."""
        found: dict[str, T] = {}
        for document in documents:
            item = self._decoded(document)
            if item is not None and (self._keep is None or self._keep(item)):
                found[self._key(item)] = item
        return found

    def replace(self, found: Mapping[str, T], resource_version: str | None = None) -> None:
        self.resource_version = resource_version
        if found != self.items:
            self._publish(found)

    def apply(self, event: object) -> None:
        """Take one event of a watch. Raises KubeError for one of type ERROR (reason gone: list anew) and for
        what is no event."""
        kind = event.get("type") if isinstance(event, dict) else None
        document = event.get("object") if isinstance(event, dict) else None
        if kind == "ERROR":
            raise _error(document)
        if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not isinstance(document, dict):
            raise KubeError(Reason.BAD_ANSWER, "the watch gave something that is no event")
        if kind != "BOOKMARK":
            self._change(document, gone=kind == "DELETED")
        metadata = document.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(version, str) and version:
            self.resource_version = version

    def _change(self, document: object, *, gone: bool) -> None:
        item = self._decoded(document)
        if item is None:
            return
        key = self._key(item)
        known = self.items.get(key)
        if gone or (self._keep is not None and not self._keep(item)):
            if known is not None:
                self._publish({other: held for other, held in self.items.items() if other != key})
        elif item != known:  # most changes of an object are in fields that are not kept
            self._publish({**self.items, key: item})

    def _publish(self, items: Mapping[str, T]) -> None:
        self.items = items
        self.version += 1

    def _decoded(self, document: object) -> T | None:
        try:
            return self._decode(document)
        except DecodeError:
            self.rejected += 1
            return None


def _error(status: object) -> KubeError:
    fields = status if isinstance(status, dict) else {}
    code, message = fields.get("code"), fields.get("message")
    reason = reason_of(code) if isinstance(code, int) else Reason.BAD_ANSWER
    return KubeError(reason, f"the watch was ended: {message if isinstance(message, str) else code}")
