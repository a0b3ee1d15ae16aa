"""The box tables of npu-smi: lines of cells, and cells that hold several values under several names.

A header cell such as `Power(W)   Temp(C)   Hugepages-Usage(page)` names the values in the cells below it, in
their order; which of them there are, and in which cell, differs between chips and versions.
"""

import re
from collections.abc import Mapping, Sequence

_LINE_LIMIT = 4000  # the widest table has 116 characters

# Names of several words first; all others are one word. Units stand in brackets behind.
_COLUMN = re.compile(
    r"(npu id|npu util|ai core|process id in container|process id|process name|process memory|[^\s(]+)"
    r"(?:\([^)]*\))?",
    re.IGNORECASE,
)
_ALIASES = {"npu id": "npu", "npu util": "utilization", "aicore": "utilization", "ai core": "utilization"}
# `59718/ 65536` is one value, as is `NA   / 3513`; everything else ends at a blank.
_VALUE = re.compile(r"[\w.+-]{1,40}\s*/\s*[\w.+-]{1,40}|\S+")

Columns = tuple[tuple[str, ...], ...]  # names by cell


def cells_of(line: str) -> tuple[str, ...] | None:
    """The cells of a line of a table, stripped; None if it is not a whole line of one."""
    bare = line.strip("\ufeff \t\r")
    if len(bare) > _LINE_LIMIT or len(bare) < 2 or not (bare.startswith("|") and bare.endswith("|")):
        return None
    return tuple(cell.strip() for cell in bare[1:-1].split("|"))


def is_broken_line(line: str) -> bool:
    """It begins as a line of a table does, but does not end as one."""
    bare = line.strip("\ufeff \t\r")
    return bare.startswith("|") and cells_of(line) is None


def columns_of(cells: Sequence[str]) -> Columns:
    return tuple(tuple(_name(match[1]) for match in _COLUMN.finditer(cell)) for cell in cells)


def has_column(columns: Columns, name: str) -> bool:
    return any(name in names for names in columns)


def cell_under(cells: Sequence[str], columns: Columns, name: str) -> str | None:
    """The whole cell in which the column is."""
    for cell, names in zip(cells, columns, strict=False):
        if name in names:
            return cell
    return None


def values_of(cells: Sequence[str], columns: Columns) -> Mapping[str, str] | None:
    """The values of a line by the names above them. None: the line has other cells than the header.

    A value that could be any of several is left out: nobody can tell which it is.
    """
    if len(cells) != len(columns):
        return None
    found: dict[str, str] = {}
    for cell, names in zip(cells, columns, strict=True):
        found.update(_in_cell(cell, names))
    return found


def _in_cell(cell: str, names: tuple[str, ...]) -> Mapping[str, str]:
    if len(names) == 1:
        return {names[0]: cell}
    if "name" in names[1:]:  # `0     910B3`; a chip's name may hold blanks
        words = cell.split(None, len(names) - 1)
        return dict(zip(names, words, strict=False))
    if names[:1] == ("chip",):  # `0     15`; the second number is not always there
        return dict(zip(names, cell.split(), strict=False))
    values = _VALUE.findall(cell)
    if len(values) == len(names):
        return dict(zip(names, values, strict=True))
    # Values that are pairs go to columns of usage, whose order is known even if a single value is missing.
    found: dict[str, str] = {}
    for of_pairs in (True, False):
        wanted = [name for name in names if name.endswith("usage") is of_pairs]
        given = [value for value in values if ("/" in value) is of_pairs]
        if len(wanted) == len(given):
            found.update(zip(wanted, given, strict=True))
    return found


def _name(text: str) -> str:
    folded = " ".join(text.casefold().split())
    return _ALIASES.get(folded, folded)
