"""Rows of `nvidia-smi --query-…  --format=csv[,noheader][,nounits]`, by the names of their columns.

The tool does not quote. A header cell is the field's canonical name, with the unit in brackets where it has
one; without a header the columns are those that were asked for, in that order.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accelscope.parsing.parsed import ParseError
from accelscope.vendors.nvidia.cells import absence, is_number
from accelscope.vendors.nvidia.messages import message_of

_NAME = re.compile(r"([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:\s*\[([^\[\]\s]{1,8})\])?", re.ASCII)
_EXTRA_COMMAS = 8  # in a name; more than that is not a row


@dataclass(frozen=True, slots=True)
class Columns:
    names: tuple[str, ...]  # canonical, lower case
    units: tuple[str, ...]  # as in the header; empty where it has none

    def row(self, line: str, free_text: str) -> dict[str, str] | None:
        """Cells by column, or None if the line does not have that many. Commas too many are taken to be
        within the column of free text, where there is one, unless that would swallow a value: rows of more
        columns than were named must not be read shifted."""
        cells = [cell.strip() for cell in line.split(",")]
        extra = len(cells) - len(self.names)
        if extra and (not 0 < extra <= _EXTRA_COMMAS or free_text not in self.names):
            return None
        if extra:
            start = self.names.index(free_text)
            end = start + extra + 1
            if any(is_number(cell) or absence(cell) for cell in cells[start + 1 : end]):
                return None
            cells[start:end] = [",".join(line.split(",")[start:end]).strip()]
        return {
            name: f"{cell} {unit}" if unit and cell[-1:].isdigit() else cell
            for name, unit, cell in zip(self.names, self.units, cells, strict=True)
        }

    @property
    def commas(self) -> int:
        return len(self.names) - 1

    def mismatch(self, text: str) -> ParseError | None:
        """What to say of an output whose rows all have another number of columns."""
        counts = {
            line.count(",") + 1 for line in text.split("\n") if "," in line and message_of(line) is None
        }
        if not counts or len(self.names) in counts:
            return None
        return ParseError(
            "column_mismatch",
            f"rows of {max(counts)} columns, expected {len(self.names)} ({','.join(self.names)}): "
            "name the columns that were asked for",
        )


def asked(names: Iterable[str], aliases: Mapping[str, str]) -> Columns:
    """Columns of a query, as the caller asked for them."""
    bare = [name.partition("[")[0].strip().casefold() for name in names]  # a pasted header has units
    return Columns(tuple(aliases.get(name, name) for name in bare), ("",) * len(bare))


def header(line: str, known: frozenset[str], aliases: Mapping[str, str], expected: Columns) -> Columns | None:
    """Columns of a header line; None if the line is not one.

    Fields that nobody here knows may be among them: every driver version brings some. Of a line that is
    damaged half of the names must still be known; the others are then those that were asked for.
    """
    if not line.lstrip()[:1].isalpha():
        return None
    cells = line.casefold().split(",")
    same_count = len(cells) == len(expected.names)
    names, units, read, found = [], [], 0, 0
    for place, cell in enumerate(cells):
        match = _NAME.fullmatch(cell.strip())
        if match is None:
            if 2 * (place + 1 - read) > len(cells):
                return None
            names.append(expected.names[place] if same_count else "")
            units.append("")
            continue
        read += 1
        name = aliases.get(match[1], match[1])
        found += name in known
        names.append(name)
        units.append(match[2] or "")
    enough = found if read == len(cells) else 2 * found >= len(cells)
    return Columns(tuple(names), tuple(units)) if enough else None
