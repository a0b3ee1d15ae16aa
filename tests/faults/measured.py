"""What the faults of the matrix cost an agent, as it was measured, beside what the page promises."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.faults.matrix import Fault

_COLUMNS = ("fault", "collections", "seconds", "promised", "slowest answer", "promised")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    name: str
    collections: int  # from the end of the fault until all was fresh
    seconds: float  # the same
    slowest_answer_seconds: float | None  # of `/healthz` and `/metrics`; None: not measured


def table(measured: Iterable[Measured], matrix: Iterable[Fault]) -> Iterator[str]:
    faults = {fault.name: fault for fault in matrix}
    rows = [_COLUMNS, *(_row(each, faults[each.name]) for each in measured)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        yield "  ".join(cells)


def _row(measured: Measured, fault: Fault) -> tuple[str, ...]:
    promised = f"{fault.seconds:g} s" if fault.seconds else f"{fault.collections} collections"
    slowest = measured.slowest_answer_seconds
    answers = ("-", "-") if slowest is None else (f"{slowest:.3f} s", f"{fault.answer_seconds:g} s")
    return (measured.name, str(measured.collections), f"{measured.seconds:.1f} s", promised, *answers)
