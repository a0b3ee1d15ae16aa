"""Rows as columns, replaced node by node.

The rows of a node are one block: contiguous, with some room to grow. A block that outgrows its room moves to
the end and leaves a hole; `settle` closes holes a little at a time. Numbers are float64 with NaN for absence
(bytes and counts are exact up to 2**53), texts are codes of their column's `TextDictionary`.

Everything runs in the event loop: a query sees one state, and positions are valid until the next change.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from accelscope.fleet.rows import Row
from accelscope.fleet.store import query as selecting
from accelscope.fleet.store.query import (
    ABSENT,
    AGE,
    TAKEN_AT,
    Positions,
    RowLayout,
    RowQuery,
    Selection,
    Value,
    layout_of,
)

# --- Texts of a column --------------------------------------------------------

Codes = npt.NDArray[np.int32]
Ranks = npt.NDArray[np.float64]
Found = npt.NDArray[np.bool_]
Sorted = npt.NDArray[np.object_]


_MERGED_AT_LEAST = 256
_MERGED_AT_ONCE = 2048  # takes a few milliseconds
_STOPS_LIMIT = 2000
_BETWEEN = "\0"
_RECLAIMED_AT_LEAST = 1024
_RECLAIMED_AT_MOST = 8192
# By size as well as by number: a thousand unused long texts are megabytes.
_RECLAIMED_BYTES = 3 << 18
# Upper bounds for each character. ASCII: the text, its lower-case copy, and the copy that is searched.
# Others: 4 for the text, and 4 for its UTF-8, which Python caches when the text is encoded. The lower-case
# copy takes 4, or 8 for a character that becomes two (which has 2 in UTF-8).
_ASCII_BYTES = 3
_OTHER_BYTES = 14


def interned_bytes(text: str) -> int:
    """An upper bound for the memory of the characters of a stored text."""
    return len(text) * (_ASCII_BYTES if text.isascii() else _OTHER_BYTES)


class TextDictionary:
    """Interned texts of one column: each text is stored once, and rows contain its code.

    The code of an unused text is freed, so that short-lived names such as those of pods do not fill the
    memory. The order of texts is updated incrementally, because sorting a hundred thousand of them takes too
    long for a query. `in_order`: every response is sorted by this column, so new texts are put in order at
    once.
    """

    def __init__(self, *, in_order: bool = False) -> None:
        self._codes: dict[str | None, int] = {None: ABSENT}
        self._texts: list[str | None] = [None]
        self._lowered: list[str] = [""]
        self._references: list[int] = [1]  # number of rows by code; the code of absence is never freed
        self._unused: list[int] = []  # codes whose last row was removed; some may be in use again
        self._unused_bytes = 0
        self._free: list[int] = []
        self._in_order = in_order
        # An array, because the garbage collector visits each item of a new list.
        self._sorted: Sorted = np.empty(0, np.object_)
        self._order: Codes = np.empty(0, np.int32)  # codes of `_sorted`
        self._unsorted: list[int] = []
        self._ranks: Ranks | None = None
        self._joined: str | None = None  # the lower-case ASCII texts, for searches
        self._non_ascii: list[int] = []  # codes of the others, whose characters would widen the joined text
        self._searched: tuple[str, Found] | None = None  # the last search: its next page searches the same

    def __len__(self) -> int:
        """Codes in use are below this."""
        return len(self._texts)

    def code(self, text: str | None) -> int | None:
        return self._codes.get(text)

    @property
    def texts(self) -> Sequence[str | None]:
        """By code."""
        return self._texts

    def encode(self, values: Sequence[str | None]) -> list[int]:
        """Codes of `values`. The caller must `retain` them before it calls anything else."""
        codes = self._codes
        try:
            return [codes[value] for value in values]
        except KeyError:
            return [code if (code := codes.get(value)) is not None else self._add(value) for value in values]

    def retain(self, codes: Iterable[int]) -> None:
        references = self._references
        for code in codes:
            references[code] += 1

    def release(self, codes: Iterable[int]) -> None:
        references = self._references
        for code in codes:
            references[code] -= 1
            if not references[code]:
                self._unused.append(code)
                self._unused_bytes += interned_bytes(self._texts[code] or "")

    def settle(self) -> None:
        """Called after a change: frees unused codes and sorts new texts in small portions."""
        bound = min(_RECLAIMED_AT_MOST, max(_RECLAIMED_AT_LEAST, len(self._texts) // 4))
        if len(self._unused) >= bound or self._unused_bytes >= _RECLAIMED_BYTES:
            self._reclaim()
        if self._in_order and len(self._unsorted) >= _MERGED_AT_ONCE:
            self.sort_some()

    def sort_some(self) -> bool:
        """Sorts some of the new texts, so that the next query need not sort all of them. False: they are too
        few to matter."""
        if len(self._unsorted) < _MERGED_AT_LEAST:
            return False
        self._merge(_MERGED_AT_ONCE)
        return True

    def containing(self, part: str) -> Found:
        """By code: whether the text contains `part`, ignoring case."""
        sought = part.lower()
        if self._searched is None or self._searched[0] != sought:
            self._searched = sought, self._search(sought)
        return self._searched[1]

    def _search(self, sought: str) -> Found:
        """Searches all texts joined into one, which is several times faster than one by one, unless there are
        many matches."""
        found = np.zeros(len(self._texts), np.bool_)
        if not sought or _BETWEEN in sought:
            return found
        if self._joined is None:
            self._non_ascii = [code for code, text in enumerate(self._lowered) if not text.isascii()]
            self._joined = _BETWEEN.join([text if text.isascii() else "" for text in self._lowered])
        joined, places = self._joined, []
        place = joined.find(sought)
        while place >= 0:
            places.append(place)
            if len(places) > _STOPS_LIMIT:
                return np.array([sought in text for text in self._lowered], np.bool_)
            place = joined.find(sought, place + 1)
        if places:
            lengths = np.fromiter(map(len, self._lowered), np.int64, len(self._lowered))
            lengths[self._non_ascii] = 0
            ends = np.cumsum(lengths + len(_BETWEEN))
            found[np.searchsorted(ends, places, side="right")] = True
        for code in self._non_ascii:
            found[code] = sought in self._lowered[code]
        return found

    def listing(self, words: frozenset[str]) -> Found:
        """By code: whether one of the comma-separated words of the text is in `words`."""
        return np.array([text is not None and not words.isdisjoint(text.split(",")) for text in self._texts])

    def ranks(self) -> Ranks:
        """By code: the rank of the text; infinite for absence."""
        if self._unsorted:
            self._merge(len(self._unsorted))
        if self._ranks is None:
            self._ranks = np.full(len(self._texts), np.inf)
            self._ranks[self._order] = np.arange(len(self._order))
        return self._ranks

    def sorted_texts(self) -> Sorted:
        """By rank."""
        self.ranks()
        return self._sorted

    def place(self, text: str | None) -> float:
        """The rank of a text; of a text that was removed, a rank between its neighbours."""
        if text is None:
            return np.inf
        in_order = self.sorted_texts()
        place = int(np.searchsorted(in_order, np.array([text], np.object_))[0])
        there = place < len(in_order) and in_order[place] == text
        return float(place) if there else place - 0.5

    def _add(self, text: str | None) -> int:
        assert text is not None
        code = self._codes.get(text)  # it occurs twice in the same values
        if code is not None:
            return code
        lowered = text.lower()
        if lowered == text:
            lowered = text  # one object instead of two
        if self._free:
            code = self._free.pop()
            self._texts[code] = text
            self._lowered[code] = lowered
        else:
            code = len(self._texts)
            self._texts.append(text)
            self._lowered.append(lowered)
            self._references.append(0)
        self._codes[text] = code
        self._unsorted.append(code)
        self._ranks = self._joined = self._searched = None
        return code

    def _merge(self, at_most: int) -> None:
        added = self._unsorted[-at_most:]
        del self._unsorted[-at_most:]
        by_code: list[Any] = self._texts
        added.sort(key=by_code.__getitem__)
        texts = np.array([by_code[code] for code in added], np.object_)
        places = np.searchsorted(self._sorted, texts)
        self._sorted = np.insert(self._sorted, places, texts)
        self._order = np.insert(self._order, places, added)
        self._ranks = None

    def _reclaim(self) -> None:
        gone = {code for code in self._unused if not self._references[code]}
        self._unused = []
        self._unused_bytes = 0
        for code in gone:
            del self._codes[self._texts[code]]
            self._texts[code] = None
            self._lowered[code] = ""
        stays = np.ones(len(self._texts), np.bool_)
        stays[list(gone)] = False
        in_order = stays[self._order]
        self._order = self._order[in_order]
        self._sorted = self._sorted[in_order]
        self._unsorted = [code for code in self._unsorted if code not in gone]
        self._free.extend(gone)
        self._ranks = self._joined = self._searched = None


# --- Tables -------------------------------------------------------------------


class NodeNumbers:
    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}
        self._free: list[int] = []

    def find(self, cluster: str, node: str) -> int | None:
        return self._numbers.get((cluster, node))

    def give(self, cluster: str, node: str) -> int:
        key = cluster, node
        number = self._numbers.get(key)
        if number is None:
            number = self._free.pop() if self._free else len(self._numbers)
            self._numbers[key] = number
        return number

    def release(self, cluster: str, node: str) -> None:
        self._free.append(self._numbers.pop((cluster, node)))


R = TypeVar("R", bound=Row)

NOWHERE = -1

_LEAST_ROWS = 1024
_BEYOND_WHOLE = 2.0**63  # larger values do not fit an integer of the response
_HOLES_AT_LEAST = 4096
_ROWS_MOVED_AT_ONCE = 20_000


class _Block(Struct, gc=False):
    start: int
    count: int
    capacity: int


class ColumnTable(Generic[R]):
    """`identity` is the unique key of rows; it begins with cluster and node. Searches ignore the
    texts in `unsearched`."""

    def __init__(
        self,
        row_type: type[R],
        identity: tuple[str, ...],
        *,
        unsearched: frozenset[str] = frozenset(),
        numbers: NodeNumbers | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.layout: RowLayout = layout_of(row_type)
        self.identity = identity
        self.searched = tuple(name for name in self.layout.texts if name not in unsearched)
        self.clock = clock
        self._row_type = row_type
        self._node_numbers = NodeNumbers() if numbers is None else numbers
        layout = self.layout
        self._values: Callable[[R], tuple[Any, ...]] = attrgetter(*layout.texts, *layout.numbers)
        self._text_rows = {name: place for place, name in enumerate(layout.texts)}
        self._number_rows = {name: place for place, name in enumerate(layout.numbers)}
        self._texts = [TextDictionary(in_order=name in identity) for name in layout.texts]
        self._blocks: dict[int, _Block] = {}
        self._end = 0
        self._taken = 0  # rows of all blocks, also of hidden ones
        self._codes = np.zeros((len(layout.texts), _LEAST_ROWS), np.int32)
        self._numbers = np.zeros((len(layout.numbers), _LEAST_ROWS))
        self._live = np.zeros(_LEAST_ROWS, np.bool_)
        self._nodes = np.zeros(_LEAST_ROWS, np.int32)
        self._links = np.zeros(_LEAST_ROWS, np.int32)
        self._starts = np.full(_LEAST_ROWS, NOWHERE, np.int64)  # of blocks, by node
        self._compaction: Compaction | None = None

    def __len__(self) -> int:
        return int(np.count_nonzero(self._live[: self._end]))

    # Queries

    def select(self, query: RowQuery) -> Selection:
        return selecting.select(self, query)

    def matching(self, query: RowQuery) -> Positions:
        """Positions of all rows that match the conditions and the search, in no order."""
        return selecting.matching(self, query)

    def positions(self) -> Positions:
        """Of all rows, in no order."""
        return np.flatnonzero(self._live[: self._end])

    def live(self) -> npt.NDArray[np.bool_]:
        """By position, whether there is a row: a copy."""
        return self._live[: self._end].copy()

    def column(self, name: str, positions: Positions | None = None) -> npt.NDArray[Any]:
        """Values at `positions`, else of all rows in the order of `positions()`. Texts are codes: see
        `texts`."""
        whole = self.whole_column(name)
        return whole[self.positions() if positions is None else positions]

    def whole_column(self, name: str) -> npt.NDArray[Any]:
        """By position, holes included: to be read only, and before the next change."""
        place = self._text_rows.get(name)
        if place is not None:
            return self._codes[place, : self._end]
        if name == AGE and self.layout.ageing:
            ages: npt.NDArray[np.float64] = np.maximum(self.clock() - self.whole_column(TAKEN_AT), 0.0)
            return ages
        self.layout.check(name)
        return self._numbers[self._number_rows[name], : self._end]

    def texts(self, name: str) -> TextDictionary:
        self.layout.check(name)
        return self._texts[self._text_rows[name]]

    def is_text(self, name: str) -> bool:
        return name in self._text_rows

    def value(self, name: str, position: int) -> Value:
        stored = self.whole_column(name)[position]
        if name in self._text_rows:
            return self.texts(name).texts[int(stored)]
        if np.isnan(stored):
            return None
        return int(stored) if name in self.layout.whole or name in self.layout.flags else float(stored)

    def rows(self, positions: Positions, now: float | None = None) -> list[R]:
        """In the order of `positions`; ages as of `now`."""
        named: dict[str, list[Any]] = {}
        for texts, name, codes in zip(
            self._texts, self.layout.texts, self._codes[:, positions].tolist(), strict=True
        ):
            by_code = texts.texts
            named[name] = [by_code[code] for code in codes]
        numbers = self._numbers[:, positions]
        absent = np.isnan(numbers)
        for name, values, gaps in zip(self.layout.numbers, numbers, absent, strict=True):
            named[name] = self._plain(name, values, gaps)
        if self.layout.ageing:
            at = self.clock() if now is None else now
            named[AGE] = [None if taken is None else max(0.0, at - taken) for taken in named[TAKEN_AT]]
        make, names = self._row_type, tuple(named)
        return [make(**dict(zip(names, values, strict=True))) for values in zip(*named.values(), strict=True)]

    def _plain(self, name: str, values: npt.NDArray[Any], gaps: npt.NDArray[np.bool_]) -> list[Any]:
        if name in self.layout.whole:
            gaps = gaps | (np.abs(values) >= _BEYOND_WHOLE)
        some_absent = bool(gaps.any())
        if name in self.layout.whole or name in self.layout.flags:
            kind = np.int64 if name in self.layout.whole else np.bool_
            values = np.where(gaps, 0.0, values).astype(kind)
        plain: list[Any] = values.tolist()
        if not some_absent:
            return plain
        return [None if gap else value for value, gap in zip(plain, gaps.tolist(), strict=True)]

    def find(self, **identity: Value) -> int | None:
        """The position of the row with these values; `cluster` and `node` are required."""
        node = self._node_numbers.find(str(identity.pop("cluster")), str(identity.pop("node")))
        here = self.of_node(node)
        for name, value in identity.items():
            column = self.column(name, here)
            if name in self._text_rows:
                code = self.texts(name).code(None if value is None else str(value))
                here = here[column == (-1 if code is None else code)]
            else:
                here = here[np.isnan(column) if value is None else column == value]
        return int(here[0]) if len(here) else None

    def of_node(self, node: int | None) -> Positions:
        """Positions of a node's rows, in the order of the last `replace`."""
        block = None if node is None else self._blocks.get(node)
        if block is None:
            return np.empty(0, np.intp)
        here = np.arange(block.start, block.start + block.count)
        return here[self._live[here]]

    def having(self, name: str, text: str, positions: Positions) -> npt.NDArray[np.bool_]:
        """Whether the rows at `positions` have this text."""
        code = self.texts(name).code(text)
        found: npt.NDArray[np.bool_] = self.column(name, positions) == (NOWHERE if code is None else code)
        return found

    def nodes(self, positions: Positions) -> npt.NDArray[np.int32]:
        """Numbers of the nodes whose rows are at `positions`."""
        return self._nodes[positions]

    def linked(self, positions: Positions, other: "ColumnTable[Any]") -> npt.NDArray[np.int64]:
        """Positions of the linked rows in the table `other`; NOWHERE for none."""
        links = self._links[positions]
        starts = other._starts[self._nodes[positions]]
        return np.where((links < 0) | (starts < 0), NOWHERE, starts + links)

    # Changes

    def replace(self, node: int, rows: Sequence[R], links: Sequence[int] | None = None) -> None:
        """Replaces all rows of the node. `links[i]` is the index of the row that row i belongs to, among the
        node's rows in another table, or NOWHERE."""
        count = len(rows)
        if not count:
            self.remove(node)
            return
        columns = list(zip(*map(self._values, rows), strict=True))
        block = self._blocks.get(node)
        stored = self._stored_codes(block)
        if block is None or block.capacity < count:
            block = self._room(node, count, block)
        here = slice(block.start, block.start + count)
        codes = []
        for texts, values, before in zip(self._texts, columns, stored, strict=False):
            after = texts.encode(values)
            if after != before:
                texts.retain(after)
                texts.release(before)
                texts.settle()
            codes.append(after)
        self._codes[:, here] = codes
        numbers = np.array(columns[len(codes) :], np.float64)
        numbers[~np.isfinite(numbers)] = np.nan
        self._numbers[:, here] = numbers
        self._links[here] = NOWHERE if links is None else links
        self._live[here] = True
        self._live[block.start + count : block.start + block.capacity] = False
        self._taken += count - block.count
        block.count = count

    def update(
        self,
        positions: Positions,
        names: Sequence[str],
        values: npt.NDArray[np.float64],
        texts: Mapping[str, Sequence[str | None]] = MappingProxyType({}),
    ) -> None:
        """Sets columns of rows. `values` has a row for each of `positions`, and a column for each of
        `names`."""
        places = [[self._number_rows[name]] for name in names]
        self._numbers[places, positions] = values.T
        for name, column in texts.items():
            place = self._text_rows[name]
            known = self._texts[place]
            before, after = self._codes[place, positions].tolist(), known.encode(column)
            if after != before:
                known.retain(after)
                known.release(before)
                self._codes[place, positions] = after
                known.settle()

    def remove(self, node: int) -> None:
        block = self._blocks.pop(node, None)
        if block is None:
            return
        for texts, before in zip(self._texts, self._stored_codes(block), strict=True):
            texts.release(before)
            texts.settle()
        self._live[block.start : block.start + block.count] = False
        self._starts[node] = NOWHERE
        self._taken -= block.count

    def assign(self, positions: Positions, field: str, value: Value) -> None:
        """Sets the same value in all of these rows."""
        place = self._text_rows.get(field)
        if place is None:
            self._numbers[self._number_rows[field], positions] = np.nan if value is None else value
            return
        texts = self._texts[place]
        [code] = texts.encode([None if value is None else str(value)])
        before = self._codes[place, positions].tolist()
        texts.retain([code] * len(before))
        texts.release(before)
        self._codes[place, positions] = code
        texts.settle()

    def hide(self, positions: Positions) -> None:
        """Hides rows from all queries at once; the rows of the nodes are removed later, one by one."""
        self._live[positions] = False

    def settle(self) -> bool:
        """Does a few milliseconds of maintenance that queries would otherwise do; False: there was none."""
        return any(texts.sort_some() for texts in self._texts) or self._close_holes()

    def _close_holes(self) -> bool:
        if self._compaction is None:
            if self._end - self._taken <= max(_HOLES_AT_LEAST, self._end // 4):
                return False
            self._compaction = Compaction(self._in_order(0), self._end)
        moved = 0
        while moved < _ROWS_MOVED_AT_ONCE:
            if not self._compaction.waiting:
                self._compaction.waiting = self._in_order(self._compaction.until)
                self._compaction.until = self._end
                if not self._compaction.waiting:
                    self._end = self._compaction.place
                    self._compaction = None
                    self._fit()
                    return False
            moved += self._move_next(self._compaction)
        return True

    def _in_order(self, start: int) -> list[int]:
        """Nodes whose blocks begin at `start` or later, the last one first."""
        blocks = self._blocks
        behind = [node for node, block in blocks.items() if block.start >= start]
        return sorted(behind, key=lambda node: blocks[node].start, reverse=True)

    def _move_next(self, compaction: "Compaction") -> int:
        node = compaction.waiting.pop()
        block = self._blocks.get(node)
        if block is None or block.start >= compaction.until:  # it was removed or moved to the end meanwhile
            return 0
        capacity = min(block.capacity, block.count + block.count // 8)
        source = slice(block.start, block.start + capacity)
        target = slice(compaction.place, compaction.place + capacity)
        if source != target:
            for columns in (self._codes, self._numbers):
                columns[:, target] = columns[:, source]
            for column in (self._nodes, self._links, self._live):
                column[target] = column[source]
            self._live[max(target.stop, source.start) : source.stop] = False
            self._starts[node] = block.start = compaction.place
        block.capacity = capacity
        compaction.place += capacity
        return block.count

    def _stored_codes(self, block: _Block | None) -> list[list[int]]:
        if block is None:
            return [[] for _ in self._texts]
        stored: list[list[int]] = self._codes[:, block.start : block.start + block.count].tolist()
        return stored

    def _room(self, node: int, count: int, outgrown: _Block | None) -> _Block:
        if outgrown is not None:
            self._live[outgrown.start : outgrown.start + outgrown.count] = False
        capacity = count + count // 4 if outgrown is not None else count
        if self._end + capacity > len(self._live):
            self._resize(max(self._end + capacity, len(self._live) * 3 // 2))
        if node >= len(self._starts):
            starts = np.full(max(node + 1, len(self._starts) * 2), NOWHERE, np.int64)
            starts[: len(self._starts)] = self._starts
            self._starts = starts
        block = _Block(self._end, 0 if outgrown is None else outgrown.count, capacity)
        self._nodes[block.start : block.start + capacity] = node
        self._starts[node] = block.start
        self._blocks[node] = block
        self._end += capacity
        return block

    def _fit(self) -> None:
        """Frees memory after a large part of the fleet was removed."""
        if len(self._live) > max(4 * self._end, _LEAST_ROWS):
            self._resize(max(2 * self._end, _LEAST_ROWS))

    def _resize(self, rows: int) -> None:
        """Allocates zeros: the system provides their pages only when they are written to."""
        kept = min(self._end, rows)
        codes = np.zeros((len(self._codes), rows), np.int32)
        codes[:, :kept] = self._codes[:, :kept]
        numbers = np.zeros((len(self._numbers), rows))
        numbers[:, :kept] = self._numbers[:, :kept]
        live, nodes = np.zeros(rows, np.bool_), np.zeros(rows, np.int32)
        live[:kept], nodes[:kept] = self._live[:kept], self._nodes[:kept]
        links = np.zeros(rows, np.int32)
        links[:kept] = self._links[:kept]
        self._codes, self._numbers = codes, numbers
        self._live, self._nodes, self._links = live, nodes, links


@dataclass(slots=True)
class Compaction:
    """Moves blocks to the front in the order of their positions, so that none overwrites another."""

    waiting: list[int]  # nodes, the next one last
    until: int  # blocks from this position on were added after this round began; the next round moves them
    place: int = 0  # position of the next block
