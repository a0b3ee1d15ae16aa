"""A device, a partition, a pod's use of a device or a process, put together from series as they come."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

Labels = Mapping[str, str]
Take = Callable[["SeriesDraft", Labels, float], None]

_LARGEST = 2.0**63  # of what counts as a whole number


@dataclass(slots=True)
class SeriesDraft:
    values: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)  # by field, what it is made of
    lists: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = field(default_factory=dict)  # by field and key

    def part(self, name: str) -> dict[str, Any]:
        return self.parts.setdefault(name, {})

    def member(self, name: str, key: tuple[Any, ...]) -> dict[str, Any]:
        return self.lists.setdefault(name, {}).setdefault(key, {})


def as_whole(value: float) -> int | None:
    return round(value) if abs(value) < _LARGEST else None


def text(labels: Labels, label: str) -> str | None:
    """An empty label and none are the same to a store."""
    return labels.get(label) or None


def number(name: str) -> Take:
    def take(draft: SeriesDraft, _: Labels, value: float) -> None:
        draft.values[name] = value

    return take


def whole(name: str) -> Take:
    def take(draft: SeriesDraft, _: Labels, value: float) -> None:
        if (rounded := as_whole(value)) is not None:
            draft.values[name] = rounded

    return take


def flag(name: str, *, meaning: bool = True) -> Take:
    def take(draft: SeriesDraft, _: Labels, value: float) -> None:
        draft.values[name] = (value > 0) is meaning

    return take


def word(name: str, label: str) -> Take:
    """The label of the one series, of several, that is not 0."""

    def take(draft: SeriesDraft, labels: Labels, value: float) -> None:
        if value > 0:
            draft.values[name] = text(labels, label)

    return take


def by_label(label: str, names: Mapping[str, str]) -> Take:
    """The label says which field it is."""

    def take(draft: SeriesDraft, labels: Labels, value: float) -> None:
        if (name := names.get(labels.get(label, ""))) is not None:
            draft.values[name] = value

    return take


def part_of(part: str, name: str, convert: Callable[[float], Any] = float) -> Take:
    def take(draft: SeriesDraft, _: Labels, value: float) -> None:
        draft.part(part)[name] = convert(value)

    return take


def part_by_label(part: str, label: str, names: Mapping[str, str]) -> Take:
    def take(draft: SeriesDraft, labels: Labels, value: float) -> None:
        if (name := names.get(labels.get(label, ""))) is not None:
            draft.part(part)[name] = as_whole(value)

    return take


def member_of(
    list_name: str,
    name: str,
    *,
    texts: Mapping[str, str] | None = None,
    may_lack: Collection[str] = (),
    index: str | None = None,
    convert: Callable[[float], Any] = float,
    **fixed: Any,
) -> Take:
    """A field of one of several things alike. `texts` are labels by the field that tells them apart, `index`
    a label that numbers them. A series that lacks one of them is of nothing, but for those in `may_lack`."""
    told = tuple((texts or {}).items())
    needed = tuple(field_name for field_name, _ in told if field_name not in may_lack)

    def take(draft: SeriesDraft, labels: Labels, value: float) -> None:
        identity: dict[str, Any] = {field_name: text(labels, label) for field_name, label in told}
        if any(identity[field_name] is None for field_name in needed):
            return
        if index is not None:
            written = labels.get(index, "")
            if not (written.isascii() and written.isdigit() and len(written) < 10):
                return
            identity["index"] = int(written)
        identity |= fixed
        converted = convert(value)
        if converted is not None:
            member = draft.member(list_name, tuple(identity.values()))
            member |= identity
            member[name] = converted

    return take
