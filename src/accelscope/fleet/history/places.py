"""Which slot a row of a table has.

Rows move in their table, and there are too many to look each up by its texts every minute. So a row has a
fingerprint, mixed from the hashes of its texts (which Python keeps), and slots are guessed from where the row
was the last time: only rows that moved are looked up.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from accelscope.fleet.history.rings import NOWHERE, Key, Rings, Slots
from accelscope.fleet.store.query import Positions
from accelscope.fleet.store.table import Table

Fingerprints = npt.NDArray[np.uint64]

_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd, and its bits are all over the place
_HALF = np.uint64(32)
_HASHED_AT_ONCE = 30_000  # some five milliseconds
_PLACED_AT_ONCE = 2048  # rows: where all are new, some ten milliseconds


@dataclass(frozen=True, slots=True)
class Rows:
    """Texts of a table's rows at a moment, in terms that hold after the table has changed."""

    positions: Positions  # as they were
    codes: list[npt.NDArray[np.int32]]  # by field
    texts: list[list[str | None]]  # by field and code

    def key(self, place: int) -> Key:
        return tuple(texts[codes[place]] for texts, codes in zip(self.texts, self.codes, strict=True))

    async def fingerprints(self) -> Fingerprints:
        """Two rows that differ are alike once in 2**64 cases. They hold for this process only."""
        mixed = np.zeros(len(self.positions), np.uint64)
        for texts, codes in zip(self.texts, self.codes, strict=True):
            hashes = np.empty(len(texts), np.int64)
            for start in range(0, len(texts), _HASHED_AT_ONCE):
                await asyncio.sleep(0)
                part = texts[start : start + _HASHED_AT_ONCE]
                hashes[start : start + len(part)] = np.fromiter(map(hash, part), np.int64, len(part))
            mixed = (mixed ^ hashes.view(np.uint64)[codes]) * _SPREAD
            mixed ^= mixed >> _HALF
        return mixed


def rows_at(table: Table[Any], positions: Positions, fields: Sequence[str]) -> Rows:
    return Rows(
        positions,
        [table.column(field, positions) for field in fields],
        [list(table.texts(field).texts) for field in fields],
    )


class Places:
    """Of rows whose texts are the keys of `rings`."""

    def __init__(self, rings: Rings) -> None:
        self._rings = rings
        self._by_print: dict[int, int] = {}
        self._prints = np.zeros(0, np.uint64)  # by slot
        self._guesses = np.zeros(0, np.intp)  # by position

    async def known(self, positions: Positions, prints: Fingerprints) -> Slots:
        """NOWHERE for rows that were not there when the last minute was recorded."""
        slots = self._guessed(positions, prints)
        unknown: list[int] = np.flatnonzero(slots == NOWHERE).tolist()
        for start in range(0, len(unknown), _HASHED_AT_ONCE):
            await asyncio.sleep(0)
            for place in unknown[start : start + _HASHED_AT_ONCE]:
                slots[place] = self._by_print.get(int(prints[place]), NOWHERE)
        return slots

    async def give(self, rows: Rows) -> Slots:
        """Also to rows that had none; NOWHERE where there is no room."""
        prints = await rows.fingerprints()
        slots = self._guessed(rows.positions, prints)
        unknown: list[int] = np.flatnonzero(slots == NOWHERE).tolist()
        for start in range(0, len(unknown), _PLACED_AT_ONCE):
            await asyncio.sleep(0)
            for place in unknown[start : start + _PLACED_AT_ONCE]:
                slots[place] = self._place(rows, place, int(prints[place]))
        if len(slots):
            self._guesses = _reaching(self._guesses, int(rows.positions.max()) + 1)
            self._guesses[rows.positions] = slots
        return slots

    def _place(self, rows: Rows, place: int, printed: int) -> int:
        slot = self._by_print.get(printed)
        if slot is None:
            slot = self._rings.slot(rows.key(place))
            if slot == NOWHERE:
                self._rings.refused += 1
                return NOWHERE
            self._prints = _reaching(self._prints, slot + 1)
            self._prints[slot] = printed
            self._by_print[printed] = slot
        return slot

    def forget(self, slots: Iterable[int]) -> None:
        """They were taken back."""
        for slot in slots:
            if slot < len(self._prints):
                self._by_print.pop(int(self._prints[slot]), None)
                self._prints[slot] = 0

    def _guessed(self, positions: Positions, prints: Fingerprints) -> Slots:
        if not (len(self._prints) and len(self._guesses)):
            return np.full(len(positions), NOWHERE, np.intp)
        reached = positions < len(self._guesses)
        slots = np.where(reached, self._guesses[np.where(reached, positions, 0)], NOWHERE)
        return np.where((slots >= 0) & (self._prints[slots] == prints), slots, NOWHERE)


def _reaching(values: npt.NDArray[Any], length: int) -> npt.NDArray[Any]:
    if length <= len(values):
        return values
    longer = np.zeros(max(length, 2 * len(values)), values.dtype)
    longer[: len(values)] = values
    return longer
