"""`npu-smi info` as each layout prints it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accelscope.vendors.ascend.simulated.models import Layout
from accelscope.vendors.ascend.simulated.readings import ChipProcess, ChipReading
from accelscope.vendors.ascend.simulated.spec import AscendSpec

_WIDE_NAME_LENGTH = 9  # of a process, where its column has become narrow


@dataclass(frozen=True, slots=True)
class _Form:
    """Widths of the cells, of the first two values in the last one, and of the cells of the process table."""

    cells: tuple[int, ...]
    values: tuple[int, int]
    process_cells: tuple[int, ...]
    upper: tuple[str, ...]
    lower: tuple[str, ...]
    number: int  # width of an NPU's or chip's number


_USAGE = ("Memory-Usage(MB)", "HBM-Usage(MB)")
_FORMS = {
    (Layout.DDR, False): _Form(
        (31, 17, 54),
        (13, 18),
        (31, 17, 26, 27),
        ("NPU     Name", "Health"),
        ("Chip    Device", "Bus-Id"),
        8,
    ),
    (Layout.HBM, False): _Form(
        (27, 15, 52), (12, 18), (27, 15, 26, 25), ("NPU   Name", "Health"), ("Chip", "Bus-Id"), 6
    ),
    (Layout.HBM, True): _Form(
        (27, 15, 70), (21, 24), (27, 15, 20, 23, 25), ("NPU   Name", "Health"), ("Chip", "Bus-Id"), 6
    ),
    (Layout.TWO_CHIPS, False): _Form(
        (27, 15, 52), (12, 18), (27, 15, 26, 25), ("NPU   Name", "Health"), ("Chip  Phy-ID", "Bus-Id"), 6
    ),
    (Layout.TWO_CHIPS, True): _Form(
        (27, 15, 70), (21, 24), (27, 15, 20, 23, 25), ("NPU   Name", "Health"), ("Chip  Phy-ID", "Bus-Id"), 6
    ),
    (Layout.NO_CHIPS, True): _Form(
        (8, 18, 15, 70),
        (22, 25),
        (27, 15, 20, 23, 25),
        ("NPU ID", "Name", "Health"),
        ("", "", "Bus-Id"),
        7,
    ),
}


def render(spec: AscendSpec, readings: Sequence[ChipReading]) -> str:
    """Of those that have a row. There is at least one chip on the node."""
    layout = readings[0].chip.model.layout
    wide = spec.is_wide or layout is Layout.NO_CHIPS
    form = _FORMS.get((layout, wide)) or _FORMS[layout, False]
    return "".join(f"{line}\n" for line in _lines(spec, readings, form, layout))


def _lines(spec: AscendSpec, readings: Sequence[ChipReading], form: _Form, layout: Layout) -> Iterator[str]:
    width = sum(form.cells) + len(form.cells) - 1
    banner = f"npu-smi {spec.tool_version or spec.driver_version}"
    yield f"+{'-' * width}+"
    yield f"| {banner:<32} {'Version: ' + spec.driver_version:<{width - 35}} |"
    yield _border(form.cells, "-")
    yield _row(form.cells, *form.upper, _values(form, "Power(W)", "Temp(C)", "Hugepages-Usage(page)"))
    usage = _USAGE[:1] if layout is Layout.DDR else _USAGE
    use = "NPU Util(%)" if layout is Layout.NO_CHIPS else "AICore(%)"
    yield _row(form.cells, *form.lower, _values(form, use, *usage))
    yield _border(form.cells, "=")
    shown = [reading for reading in readings if reading.shown]
    for place, reading in enumerate(shown):
        yield from _chip(reading, form, layout)
        following = shown[place + 1] if place + 1 < len(shown) else None
        same_board = following is not None and following.chip.board == reading.chip.board
        yield f"+{'-' * width}+" if same_board else _border(form.cells, "=")
    if readings[0].chip.model.lists_processes:
        yield from _process_lines(spec, shown, form)


def _chip(reading: ChipReading, form: _Form, layout: Layout) -> Iterator[str]:
    chip = reading.chip
    upper = _values(form, _power(reading), str(reading.celsius), "0    / 0")
    usages = [_pair(reading.memory_used_mib, chip.model.memory_mib)]
    if layout is not Layout.DDR:
        usages.insert(0, _pair(reading.ddr_used_mib, chip.model.ddr_mib))
    lower = _values(form, str(reading.aicore), *usages)
    if layout is Layout.NO_CHIPS:
        yield _row(form.cells, str(chip.board), chip.model.name, reading.health, upper)
        yield _row(form.cells, "", "", chip.bus_id, lower)
        return
    second = {Layout.DDR: reading.logic_id, Layout.TWO_CHIPS: chip.slot}.get(layout, "")
    yield _row(form.cells, f"{chip.board:<{form.number}}{chip.model.name}", reading.health, upper)
    yield _row(form.cells, f"{chip.number:<{form.number}}{second}", chip.bus_id, lower)


def _power(reading: ChipReading) -> str:
    """Two chips of an NPU have one meter, and the first shows it."""
    model = reading.chip.model
    if not model.chip_measures_power:
        return "NA"
    if model.layout is Layout.TWO_CHIPS and not reading.chip.leads_board:
        return "-"
    return f"{reading.watts:.1f}"


def _process_lines(spec: AscendSpec, readings: Sequence[ChipReading], form: _Form) -> Iterator[str]:
    cells = form.process_cells
    chips = len(form.cells) == 3
    heads = [f"NPU{'     Chip' if chips else ' ID'}", "Process id", "Process name", "Process memory(MB)"]
    wide = len(cells) == 5
    yield _border(form.cells if chips else (*cells[:2], form.cells[-1]), "-")
    yield _row(cells, *heads, *(["Process id in container"] if wide else []))
    end = _border((cells[0], cells[1], form.cells[-1]), "=")
    yield end
    for board in dict.fromkeys(reading.chip.board for reading in readings):
        found = [
            (reading, process)
            for reading in readings
            if reading.chip.board == board
            for process in reading.processes
        ]
        for reading, process in found:
            place = f"{board:<8}{reading.chip.number}" if chips else str(board)
            name = _name(spec, process, wide=wide)
            row = [place, str(process.pid), name, str(process.memory_mib), *(["NA"] if wide else [])]
            yield _row(cells, *row)
        if not found:
            yield _row((sum(cells) + len(cells) - 1,), f"No running processes found in NPU {board}")
        yield end


def _name(spec: AscendSpec, process: ChipProcess, *, wide: bool) -> str:
    if spec.in_container:
        return ""
    return process.name[:_WIDE_NAME_LENGTH] if wide else process.name


def _values(form: _Form, *values: str) -> str:
    first, second = form.values
    padded = f"{values[0]:<{first}}{values[1]:<{second}}"
    return f"{padded}{values[2]}" if len(values) > 2 else padded


def _pair(used: int, total: int) -> str:
    return f"{used:<5}/ {total}"


def _row(widths: Sequence[int], *cells: str) -> str:
    return "|" + "|".join(f" {cell:<{width - 1}}" for width, cell in zip(widths, cells, strict=True)) + "|"


def _border(widths: Sequence[int], line: str) -> str:
    return "+" + "+".join(line * width for width in widths) + "+"
