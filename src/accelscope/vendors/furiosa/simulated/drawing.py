"""Tables as the tools draw them: a rule around every row, cells of several lines within one."""

from collections.abc import Sequence

Cell = str | Sequence[str]  # lines


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]], *, rules_between: bool = True) -> str:
    """A cell of fewer lines than its row stands in the middle, as names beside a list of cores do."""
    lines = [[_lines(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(line) for row in lines for line in row[column]) for column in range(len(header))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    drawn = [_row(row, widths) for row in lines]
    body = rule.join(drawn[1:]) if rules_between else "".join(drawn[1:])
    return rule + drawn[0] + rule + body + (rule if rows else "")


def _lines(cell: Cell) -> tuple[str, ...]:
    return (cell,) if isinstance(cell, str) else tuple(cell)


def _row(cells: Sequence[tuple[str, ...]], widths: Sequence[int]) -> str:
    height = max(map(len, cells))
    columns = []
    for cell, width in zip(cells, widths, strict=True):
        above = (height - len(cell)) // 2
        padded = ("",) * above + cell + ("",) * (height - len(cell) - above)
        columns.append([line.ljust(width) for line in padded])
    return "".join("| " + " | ".join(line) + " |\n" for line in zip(*columns, strict=True))
