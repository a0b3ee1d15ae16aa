"""docs/faults.md, from the matrix."""

from collections.abc import Iterable

from tests.faults.matrix import ELSEWHERE, MATRIX, OTHER_VENDORS, Fault, Part

_HEAD = """\
# What happens when something breaks

<!-- Made from tests/faults/matrix.py by `make docs`; a test compares them. -->

Each line is a test that runs a real agent on a simulated node through the fault
(`.venv/bin/pytest tests/faults -k NAME`). Besides what its line describes, each test shows that during the
fault `/healthz` is 200 and `/metrics` responds within {usual}
({exceptions}),
that the other devices stay fresh, that no device that could not be read has values, that memory, threads and
open files are bounded, that neither a traceback nor a secret is logged, and that nothing is left behind.

*Back after* is the time from the end of the fault until every device is fresh and every source is up, on an
idle machine. It is in collections, or in seconds if backoff, polling of files, a tool's timeout or a start
determine it. These times are for faults of a few seconds: backoff grows to a minute, and after a long fault
the agent may need that long. The tests allow four times as much. `.venv/bin/pytest tests/faults` prints the
measured times to recover and the slowest responses.

The nodes here are NVIDIA's. Faults of the other vendors have their own tests:

{vendors}
"""

_ELSEWHERE = """
## Other programs

These have their own tests.

| program | what breaks | what keeps working | tests |
|---|---|---|---|
"""

_COLUMNS = """\
| fault | what breaks | what keeps working | what is counted | back after |
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
        pages.append("\nFurther tests:\n")
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
    """Alternatives are joined with `or`, because a bar would end the cell."""
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
