"""Rows as columns, replaced node by node.

The rows of a node are one block: contiguous, with some room to grow. A block that outgrows its room moves to
the end and leaves a hole; `settle` closes holes a little at a time. Numbers are float64 with NaN for absence
(bytes and counts are exact up to 2**53), texts are codes of their column's `Texts`.

Everything runs in the event loop: a query sees one state, and positions are valid until the next change.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from accelscope.fleet.rows import Row
from accelscope.fleet.store import query as selecting
from accelscope.fleet.store.query import AGE, TAKEN_AT, Layout, Positions, Query, Selection, Value, layout_of
from accelscope.fleet.store.texts import Texts


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

    def take_back(self, cluster: str, node: str) -> None:
        self._free.append(self._numbers.pop((cluster, node)))


R = TypeVar("R", bound=Row)

NOWHERE = -1

_LEAST_ROWS = 1024
_BEYOND_WHOLE = 2.0**63  # no whole number of an answer
_HOLES_AT_LEAST = 4096
_ROWS_MOVED_AT_ONCE = 20_000


class _Block(Struct, gc=False):
    start: int
    count: int
    capacity: int


class Table(Generic[R]):
    """`identity` is the unique key of rows; it begins with cluster and node. `unsearched` texts are left out
    of searches."""

    def __init__(
        self,
        row_type: type[R],
        identity: tuple[str, ...],
        *,
        unsearched: frozenset[str] = frozenset(),
        numbers: NodeNumbers | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.layout: Layout = layout_of(row_type)
        self.identity = identity
        self.searched = tuple(name for name in self.layout.texts if name not in unsearched)
        self.clock = clock
        self._row_type = row_type
        self._node_numbers = NodeNumbers() if numbers is None else numbers
        layout = self.layout
        self._values: Callable[[R], tuple[Any, ...]] = attrgetter(*layout.texts, *layout.numbers)
        self._text_rows = {name: place for place, name in enumerate(layout.texts)}
        self._number_rows = {name: place for place, name in enumerate(layout.numbers)}
        self._texts = [Texts(in_order=name in identity) for name in layout.texts]
        self._blocks: dict[int, _Block] = {}
        self._end = 0
        self._taken = 0  # rows of all blocks, also of hidden ones
        self._codes = np.zeros((len(layout.texts), _LEAST_ROWS), np.int32)
        self._numbers = np.zeros((len(layout.numbers), _LEAST_ROWS))
        self._live = np.zeros(_LEAST_ROWS, np.bool_)
        self._nodes = np.zeros(_LEAST_ROWS, np.int32)
        self._links = np.zeros(_LEAST_ROWS, np.int32)
        self._starts = np.full(_LEAST_ROWS, NOWHERE, np.int64)  # of blocks, by node
        self._moving: _Moving | None = None

    def __len__(self) -> int:
        return int(np.count_nonzero(self._live[: self._end]))

    # Questions

    def select(self, query: Query) -> Selection:
        return selecting.select(self, query)

    def matching(self, query: Query) -> Positions:
        """Where conditions and search hold: all of them, in no order."""
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

    def texts(self, name: str) -> Texts:
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
        """Where the row is that has these values; `cluster` and `node` must be among them."""
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
        """Positions of a node's rows, in the order in which they were given."""
        block = None if node is None else self._blocks.get(node)
        if block is None:
            return np.empty(0, np.intp)
        here = np.arange(block.start, block.start + block.count)
        return here[self._live[here]]

    def nodes(self, positions: Positions) -> npt.NDArray[np.int32]:
        """Numbers of the nodes whose rows are at `positions`."""
        return self._nodes[positions]

    def linked(self, positions: Positions, other: "Table[Any]") -> npt.NDArray[np.int64]:
        """Where in the table `other` the rows are that these were linked with; NOWHERE for none."""
        links = self._links[positions]
        starts = other._starts[self._nodes[positions]]
        return np.where((links < 0) | (starts < 0), NOWHERE, starts + links)

    # Changes

    def replace(self, node: int, rows: Sequence[R], links: Sequence[int] | None = None) -> None:
        """These are the node's rows now. `links[i]` is the place of what row i belongs to among the rows of
        the same node in another table, or NOWHERE."""
        count = len(rows)
        if not count:
            self.remove(node)
            return
        columns = list(zip(*map(self._values, rows), strict=True))
        block = self._blocks.get(node)
        held = self._held_codes(block)
        if block is None or block.capacity < count:
            block = self._room(node, count, block)
        here = slice(block.start, block.start + count)
        codes = []
        for texts, values, before in zip(self._texts, columns, held, strict=False):
            after = texts.encode(values)
            if after != before:
                texts.hold(after)
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

    def remove(self, node: int) -> None:
        block = self._blocks.pop(node, None)
        if block is None:
            return
        for texts, before in zip(self._texts, self._held_codes(block), strict=True):
            texts.release(before)
            texts.settle()
        self._live[block.start : block.start + block.count] = False
        self._starts[node] = NOWHERE
        self._taken -= block.count

    def assign(self, positions: Positions, field: str, value: Value) -> None:
        """The same value for all of these rows."""
        place = self._text_rows.get(field)
        if place is None:
            self._numbers[self._number_rows[field], positions] = np.nan if value is None else value
            return
        texts = self._texts[place]
        [code] = texts.encode([None if value is None else str(value)])
        before = self._codes[place, positions].tolist()
        texts.hold([code] * len(before))
        texts.release(before)
        self._codes[place, positions] = code
        texts.settle()

    def hide(self, positions: Positions) -> None:
        """Out of every answer at once; the nodes' rows are removed later, one by one."""
        self._live[positions] = False

    def settle(self) -> bool:
        """A few milliseconds of work that answers then need not do; False: there was none."""
        return any(texts.sort_some() for texts in self._texts) or self._close_holes()

    def _close_holes(self) -> bool:
        if self._moving is None:
            if self._end - self._taken <= max(_HOLES_AT_LEAST, self._end // 4):
                return False
            self._moving = _Moving(self._in_order(0), self._end)
        moved = 0
        while moved < _ROWS_MOVED_AT_ONCE:
            if not self._moving.waiting:
                self._moving.waiting = self._in_order(self._moving.until)
                self._moving.until = self._end
                if not self._moving.waiting:
                    self._end = self._moving.place
                    self._moving = None
                    self._fit()
                    return False
            moved += self._move_next(self._moving)
        return True

    def _in_order(self, start: int) -> list[int]:
        """Nodes whose blocks begin at `start` or behind it, the last one first."""
        blocks = self._blocks
        behind = [node for node, block in blocks.items() if block.start >= start]
        return sorted(behind, key=lambda node: blocks[node].start, reverse=True)

    def _move_next(self, moving: "_Moving") -> int:
        node = moving.waiting.pop()
        block = self._blocks.get(node)
        if block is None or block.start >= moving.until:  # it went, or went to the end meanwhile
            return 0
        capacity = min(block.capacity, block.count + block.count // 8)
        source = slice(block.start, block.start + capacity)
        target = slice(moving.place, moving.place + capacity)
        if source != target:
            for columns in (self._codes, self._numbers):
                columns[:, target] = columns[:, source]
            for column in (self._nodes, self._links, self._live):
                column[target] = column[source]
            self._live[max(target.stop, source.start) : source.stop] = False
            self._starts[node] = block.start = moving.place
        block.capacity = capacity
        moving.place += capacity
        return block.count

    def _held_codes(self, block: _Block | None) -> list[list[int]]:
        if block is None:
            return [[] for _ in self._texts]
        held: list[list[int]] = self._codes[:, block.start : block.start + block.count].tolist()
        return held

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
        """Gives memory back after a large part of the fleet has left."""
        if len(self._live) > max(4 * self._end, _LEAST_ROWS):
            self._resize(max(2 * self._end, _LEAST_ROWS))

    def _resize(self, rows: int) -> None:
        """Zeros, since the system gives pages of them only when they are written to."""
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
class _Moving:
    """Blocks on their way to the front, in the order of their places, so that none is moved over another."""

    waiting: list[int]  # nodes, the next one last
    until: int  # blocks from here on came after this round began: they wait for the next
    place: int = 0  # where the next block goes
