"""Pages of lists that are made anew for each question: sums by group, namespaces."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeVar

from msgspec import Struct

from accelscope.fleet.api.cursor import NO_PLACE, After, bad_cursor, read_cursor, write_cursor
from accelscope.fleet.api.route import Call

S = TypeVar("S", bound=Struct)


@dataclass(frozen=True, slots=True)
class _Key:
    """One field of the order; what is absent comes last in both directions."""

    field: str
    descending: bool = False

    def value(self, item: Struct) -> str | float | None:
        """As a cursor holds it. Numbers that differ by less than a cursor can tell are the same number."""
        value = getattr(item, self.field)
        if value is None or isinstance(value, str):
            return value
        number = float(value)
        return number if isfinite(number) else None

    def compare(self, item: Struct, place: str | float | None) -> int:
        """Below 0: the item is before that place; above 0: behind it."""
        value = self.value(item)
        if value == place:
            return 0
        if value is None or place is None:
            return 1 if value is None else -1
        if isinstance(value, str) != isinstance(place, str):
            raise bad_cursor(NO_PLACE)
        larger: bool = value > place  # type: ignore[operator]
        return 1 if larger != self.descending else -1


def short_page(call: Call, items: Sequence[S], identity: Sequence[str]) -> tuple[list[S], str | None]:
    """One page, and the cursor of the next: what the last item was sorted by, and its identity, so that items
    that come, go or change their place in between neither hide nor repeat others. `items` come in the order
    of their identity. Raises Problem."""
    sort = [_Key(word.removeprefix("-"), word.startswith("-")) for word in call.values["sort"]]
    keys = [*sort, *map(_Key, identity)]
    ordered = _sorted(items, sort)
    start = 0
    if (given := call.values["cursor"]) is not None:
        start = _behind(ordered, keys, read_cursor(call.question, given))
    shown = ordered[start : start + call.values["limit"]]
    if not shown or start + len(shown) >= len(ordered):
        return shown, None
    return shown, write_cursor(call.question, tuple(key.value(shown[-1]) for key in keys))


def _sorted(items: Sequence[S], keys: Sequence[_Key]) -> list[S]:
    ordered = list(items)
    for key in reversed(keys):
        valued = [(key.value(item), item) for item in ordered]
        known = [pair for pair in valued if pair[0] is not None]
        known.sort(key=lambda pair: pair[0], reverse=key.descending)  # type: ignore[arg-type,return-value]
        ordered = [item for _, item in known] + [item for value, item in valued if value is None]
    return ordered


def _behind(ordered: Sequence[Struct], keys: Sequence[_Key], after: After) -> int:
    if len(after) != len(keys):
        raise bad_cursor(NO_PLACE)

    def is_behind(item: Struct) -> bool:
        for key, place in zip(keys, after, strict=True):
            if compared := key.compare(item, place):
                return compared > 0
        return False

    return bisect_left(ordered, True, key=is_behind)
