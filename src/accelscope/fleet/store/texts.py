"""Interned texts of one column: each text is stored once, and rows contain its code.

The code of an unused text is freed, so that short-lived names such as those of pods do not fill the memory.
The order of texts is updated incrementally, because sorting a hundred thousand of them takes too long for a
query.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
Ranks = npt.NDArray[np.float64]
Found = npt.NDArray[np.bool_]
Sorted = npt.NDArray[np.object_]

ABSENT = 0  # the code of None

_MERGED_AT_LEAST = 256
_MERGED_AT_ONCE = 2048  # takes a few milliseconds
_STOPS_LIMIT = 2000
_BETWEEN = "\0"
_RECLAIMED_AT_LEAST = 1024
_RECLAIMED_AT_MOST = 8192
# By size as well as by number: a thousand long texts that no row holds any more are megabytes.
_RECLAIMED_BYTES = 3 << 18
# At most, for each character. ASCII: the text, its copy in small letters, and the copy that is searched.
# Others: 4 for the text, and 4 for its UTF-8, which Python keeps once the text was in an answer. The copy in
# small letters has 4, or 8 where one letter becomes two (which has 2 in UTF-8).
_ASCII_BYTES = 3
_OTHER_BYTES = 14


def held_bytes(text: str) -> int:
    """What the characters of a text take at most while it is held."""
    return len(text) * (_ASCII_BYTES if text.isascii() else _OTHER_BYTES)


class Texts:
    """`in_order`: it is sorted by in every answer, so new texts go into the order as they come."""

    def __init__(self, *, in_order: bool = False) -> None:
        self._codes: dict[str | None, int] = {None: ABSENT}
        self._texts: list[str | None] = [None]
        self._lowered: list[str] = [""]
        self._held: list[int] = [1]  # rows by code; absence is never given back
        self._unheld: list[int] = []  # codes that came to be held by nobody; some may be held again by now
        self._unheld_bytes = 0
        self._free: list[int] = []
        self._in_order = in_order
        # An array, since the garbage collector would go through each new list of them, one by one.
        self._sorted: Sorted = np.empty(0, np.object_)
        self._order: Codes = np.empty(0, np.int32)  # codes of `_sorted`
        self._unsorted: list[int] = []
        self._ranks: Ranks | None = None
        self._joined: str | None = None  # those of ASCII in small letters, to be searched
        self._beside: list[int] = []  # codes of the others: one wide letter would widen all that is joined
        self._searched: tuple[str, Found] | None = None  # the last search: its next page asks the same

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
        """Codes of `values`, which are not held yet: the caller holds them before anything else is asked."""
        codes = self._codes
        try:
            return [codes[value] for value in values]
        except KeyError:
            return [code if (code := codes.get(value)) is not None else self._add(value) for value in values]

    def hold(self, codes: Iterable[int]) -> None:
        held = self._held
        for code in codes:
            held[code] += 1

    def release(self, codes: Iterable[int]) -> None:
        held = self._held
        for code in codes:
            held[code] -= 1
            if not held[code]:
                self._unheld.append(code)
                self._unheld_bytes += held_bytes(self._texts[code] or "")

    def settle(self) -> None:
        """After a change: works off what has piled up, while it is little."""
        bound = min(_RECLAIMED_AT_MOST, max(_RECLAIMED_AT_LEAST, len(self._texts) // 4))
        if len(self._unheld) >= bound or self._unheld_bytes >= _RECLAIMED_BYTES:
            self._reclaim()
        if self._in_order and len(self._unsorted) >= _MERGED_AT_ONCE:
            self.sort_some()

    def sort_some(self) -> bool:
        """Works new texts into the order, so that who asks for it does not wait for all of them; False: they
        are so few that it would make no difference."""
        if len(self._unsorted) < _MERGED_AT_LEAST:
            return False
        self._merge(_MERGED_AT_ONCE)
        return True

    def containing(self, part: str) -> Found:
        """By code: whether `part` is in the text, in any case."""
        sought = part.lower()
        if self._searched is None or self._searched[0] != sought:
            self._searched = sought, self._search(sought)
        return self._searched[1]

    def _search(self, sought: str) -> Found:
        """In all texts at once, which is several times as quick as one by one; unless it is in so many of
        them that each would be stopped at."""
        found = np.zeros(len(self._texts), np.bool_)
        if not sought or _BETWEEN in sought:
            return found
        if self._joined is None:
            self._beside = [code for code, text in enumerate(self._lowered) if not text.isascii()]
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
            lengths[self._beside] = 0
            ends = np.cumsum(lengths + len(_BETWEEN))
            found[np.searchsorted(ends, places, side="right")] = True
        for code in self._beside:
            found[code] = sought in self._lowered[code]
        return found

    def listing(self, words: frozenset[str]) -> Found:
        """By code: whether one of `words` is among those that the text lists by commas."""
        return np.array([text is not None and not words.isdisjoint(text.split(",")) for text in self._texts])

    def ranks(self) -> Ranks:
        """By code: its place in the order of all texts; infinite for absence."""
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
        """The rank of a text that may have gone: then between its neighbours."""
        if text is None:
            return np.inf
        in_order = self.sorted_texts()
        place = int(np.searchsorted(in_order, np.array([text], np.object_))[0])
        there = place < len(in_order) and in_order[place] == text
        return float(place) if there else place - 0.5

    def _add(self, text: str | None) -> int:
        assert text is not None
        code = self._codes.get(text)  # twice among the same values
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
            self._held.append(0)
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
        gone = {code for code in self._unheld if not self._held[code]}
        self._unheld = []
        self._unheld_bytes = 0
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
