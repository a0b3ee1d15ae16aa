"""Tables for a terminal and for a Markdown page."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    names: int = 1  # how many columns, from the left, hold words and not figures

    def add(self, *cells: str) -> None:
        assert len(cells) == len(self.columns), (self.title, cells)
        self.rows.append(cells)

    def as_text(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.columns, *self.rows, strict=True)]
        lines = [self.title, "-" * len(self.title)]
        lines += [_padded(row, widths, self.names) for row in (self.columns, *self.rows)]
        lines += [f"  {note}" for note in self.notes]
        return "\n".join(lines)

    def as_markdown(self) -> str:
        lines = [f"## {self.title}", "", _piped(self.columns)]
        lines.append(_piped(["---" if at < self.names else "---:" for at in range(len(self.columns))]))
        lines += [_piped(row) for row in self.rows]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines)


def _padded(cells: Sequence[str], widths: Sequence[int], names: int) -> str:
    padded = (
        cell.ljust(width) if at < names else cell.rjust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join(padded).rstrip()


def _piped(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def mib(count: float) -> str:
    return f"{count / 2**20:.1f}"


def ms(seconds: float) -> str:
    value = seconds * 1000
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def times(ratio: float) -> str:
    if ratio < 0.1:
        return f"{ratio:.3f} x"
    return f"{ratio:.2f} x" if ratio < 10 else f"{ratio:.0f} x"
