"""Tables for a terminal and for a Markdown page."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    def add(self, *cells: str) -> None:
        assert len(cells) == len(self.columns), (self.title, cells)
        self.rows.append(cells)

    def as_text(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        lines = [self.title, "-" * len(self.title)]
        lines += [_padded(row, widths) for row in (self.columns, *self.rows)]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def as_markdown(self) -> str:
        lines = [f"## {self.title}", "", _piped(self.columns)]
        lines.append(_piped(["---", *("---:" for _ in self.columns[1:])]))
        lines += [_piped(row) for row in self.rows]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines)


def _padded(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    rest = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return "  ".join((first, *rest)).rstrip()


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def mib(count: float) -> str:
    return f"{count / 2**20:.1f}"


def ms(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def times(ratio: float) -> str:
    return f"{ratio:.2f} x" if ratio < 10 else f"{ratio:.0f} x"
