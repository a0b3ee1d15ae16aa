"""docs/faults.md, from the matrix."""

from collections.abc import Iterable

from tests.faults.matrix import ELSEWHERE, MATRIX, OTHER_VENDORS, Fault, Part

_HEAD = """\
# What happens when something breaks

<!-- Made from tests/faults/matrix.py by `make docs`; a test compares them. -->

Each line is a test: a real agent on a simulated node is taken through the fault
(`.venv/bin/pytest tests/faults -k NAME`). Beside what its line says, each shows that `/healthz` stays 200 and
`/metrics` answers all the while, within {usual}
({exceptions}),
that the other devices stay fresh, that no device which could not be read shows a value, that memory, threads
and open files stay bounded, that neither a traceback nor a secret gets into the log, and that nothing is left
behind.

*Back after* is from the end of the fault until every device is fresh and every source is up, on an idle
machine: in collections where the agent's pace counts, in seconds where the pauses between its attempts do, or
between its looks at files, its patience with a tool, or a start. Those are for faults of a few seconds:
pauses grow to a minute, and after a long fault it may take as long. The tests allow four times as much.
`.venv/bin/pytest tests/faults` prints what it measured: how long each took until all was well, and the
slowest answer meanwhile.

The nodes here are NVIDIA's. What hangs of the other three vendors has tests of its own:

{vendors}
"""

_ELSEWHERE = """
## Other programs

Their own tests show these.

| program | what breaks | what stays right | shown by |
|---|---|---|---|
"""

_COLUMNS = """\
| fault | what breaks | what stays right | what is counted | back after |
|---|---|---|---|---|
"""


def reference() -> str:
    usual = min(fault.answer_seconds for fault in MATRIX)
    slower = [f"`{f.name}`: {f.answer_seconds:g} s" for f in MATRIX if f.answer_seconds > usual]
    pages = [_HEAD.format(usual=f"{usual:g} s", exceptions=", ".join(slower), vendors=_listed(OTHER_VENDORS))]
    for part in Part:
        pages.append(f"\n## {part}\n\n")
        pages.append(_COLUMNS)
        pages += [_row(fault) for fault in MATRIX if fault.part is part]
        closer = [fault for fault in MATRIX if fault.part is part and fault.shown_by]
        pages.append("\nCloser looks:\n")
        pages += [f"\n- `{fault.name}`\n{_listed(fault.shown_by, '  ')}" for fault in closer]
        pages.append("\n")
    pages.append(_ELSEWHERE)
    pages += [f"| {e.program} | {e.broken} | {e.stays} | {_tests(e.shown_by)} |\n" for e in ELSEWHERE]
    return "".join(pages)


def _row(fault: Fault) -> str:
    counted = ", ".join(_series(series) for series in fault.counted) or fault.told
    back = f"{fault.seconds:g} s" if fault.seconds else _collections(fault.collections)
    root = " (the test needs root)" if fault.needs_root else ""
    return f"| `{fault.name}` | {fault.broken}{root} | {fault.stays} | {counted} | {back} |\n"


def _series(series: str) -> str:
    """Alternatives are spelt out: a bar would end the cell."""
    names, _, labels = series.partition("{")
    shown = " or ".join(f"`{name}`" for name in names.split("|"))
    pairs = [pair.replace('"', "") for pair in labels.removesuffix("}").split(",") if pair]
    of = ", ".join(f"{key} {' or '.join(value.split('|'))}" for key, value in (p.split("=") for p in pairs))
    return f"{shown} ({of})" if of else shown


def _collections(number: int) -> str:
    return f"{number} collection{'s' if number > 1 else ''}"


def _listed(paths: Iterable[str], indent: str = "") -> str:
    return "\n".join(f"{indent}- `{path}`" for path in paths)


def _tests(paths: Iterable[str]) -> str:
    return ", ".join(f"`{path}`" for path in paths)
