"""The output of the simulated npu-smi: `key : value` commands, lists, the table, and its answer to each
command."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from accelscope.simulate.vendor import Tool, ToolAnswer
from accelscope.vendors.ascend.simulated.chip import ChipProcess, ChipReading
from accelscope.vendors.ascend.simulated.spec import AscendSpec, Layout

Board = Sequence[ChipReading]  # the chips of one NPU


def board(spec: AscendSpec, chips: Board) -> str:
    chip = chips[0].chip
    return _lines(
        ("NPU ID", chip.board),
        ("Product Name", "NA"),
        ("Model", "NA"),
        ("Manufacturer", "NA"),
        ("Serial Number", chip.serial),
        ("Software Version", spec.driver_version),
        ("Firmware Version", "7.5.0.5.220"),
        ("Compatibility", "OK"),
        ("Board ID", "0x3c"),
        ("PCB ID", "A"),
        ("BOM ID", 1),
        ("PCIe Bus Info", chip.bus_id),
        ("Slot ID", 0),
        ("Class ID", "NA"),
        ("PCI Vendor ID", "0x19E5"),
        ("PCI Device ID", f"0x{chip.model.pci_device_code:04X}"),
        ("Chip Count", chip.board_chips),
    )


def chip_board(reading: ChipReading) -> str:
    chip = reading.chip
    die = "VDie ID" if chip.model.layout is not Layout.DDR else "Die ID"
    return _lines(
        ("NPU ID", chip.board),
        ("Chip ID", chip.number),
        ("Chip Type", "Ascend"),
        ("Chip Name", chip.model.name),
        ("Chip Version", "V1"),
        ("Board ID", "0x3c"),
        ("PCB ID", "NA"),
        ("BOM ID", 1),
        (die, chip.die),
        ("Chip Position ID", chip.number),
        ("PCIe Bus Info", chip.bus_id),
        ("Firmware Version", "7.5.0.5.220"),
    )


def npu_board(spec: AscendSpec, reading: ChipReading) -> str:
    """Board and chip in one output, for an NPU without chip numbers."""
    die = _lines(("Chip Name", reading.chip.model.name), ("VDie ID", reading.chip.die))
    return board(spec, [reading]) + die


def usages(chips: Board) -> str:
    return _chips_last(chips, _usages)


def memory(chips: Board) -> str:
    return _chips_last(chips, _memory)


def volt(chips: Board) -> str:
    return _chips_last(chips, lambda reading: [("Voltage(V)", f"{reading.volts:.2f}")])


def common(chips: Board) -> str:
    """The chip's number precedes its values here. The controller of the board comes last."""
    text = _lines(*_heading(chips))
    for reading in chips:
        chip = reading.chip
        values: list[tuple[str, object]] = [] if _without_chips(chips) else [("Chip ID", chip.number)]
        if chip.model.layout is Layout.DDR:
            values += [("Memory Usage Rate(%)", reading.memory_percent)]
        else:
            values += [("Memory Usage Rate(%)", 0 if chip.model.ddr_mib == 0 else 12)]
            values += [("HBM Usage Rate(%)", reading.memory_percent)]
        values += [
            ("Aicore Usage Rate(%)", reading.aicore),
            ("Aicore Freq(MHZ)", chip.model.aicore_mhz),
            ("Aicore curFreq(MHZ)", reading.aicore_mhz),
            ("Aicore Count", chip.model.aicores),
            ("Temperature(C)", reading.celsius),
        ]
        if chip.model.chip_measures_power:
            values += [("NPU Real-time Power(W)", f"{reading.watts:.1f}")]
        text += "\n" + _lines(*values)
    if _without_chips(chips):
        return text
    controller: list[tuple[str, object]] = [("Chip Name", "mcu"), ("Temperature(C)", chips[0].celsius - 8)]
    if not chips[0].chip.model.chip_measures_power:
        controller += [("NPU Real-time Power(W)", f"{sum(reading.watts for reading in chips):.1f}")]
    return text + "\n" + _lines(*controller)


def ecc(chips: Board) -> str:
    return _chips_last(chips, _ecc, width=40)


def health(reading: ChipReading) -> str:
    codes = " ".join(f"{error.code:08X}" for error in reading.errors)
    text = _lines(
        *([("NPU ID", reading.chip.board)] if reading.chip.model.layout is Layout.NO_CHIPS else []),
        ("Health Status", reading.health),
        ("Error Code", codes or "NA"),
        ("Error Information", reading.errors[0].information if reading.errors else "NA"),
    )
    return text + "".join(f"\n\t{'':<30} : {error.information}\n" for error in reading.errors[1:])


def processes(spec: AscendSpec, chips: Board) -> str:
    text = _lines(*_heading(chips))
    for reading in chips:
        text += "\n"
        if not reading.processes:
            text += "\tNo process in device.\n"
        for process in reading.processes:
            name = "" if spec.in_container else process.name
            text += "\tGet pid name failed.\n" if spec.in_container else ""
            memory = f"Process memory(MB):{process.memory_mib}"
            text += f"\tProcess id:{process.pid:<7} Process name:{name:<17} {memory}\n"
        if not _without_chips(chips):
            text += _lines(("Chip ID", reading.chip.number))
    return text


def mapping(readings: Sequence[ChipReading]) -> str:
    """The numbers of chips in the runtime and in /dev, and of the controllers of their boards."""
    layout = readings[0].chip.model.layout
    names = {
        Layout.TWO_CHIPS: ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Phy-ID", "Chip Name"),
        Layout.NO_CHIPS: ("NPU ID", "Slot ID", "Chip ID", "Chip Phy-ID", "Chip Name"),
    }.get(layout, ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name"))
    rows: list[tuple[object, ...]] = [names]
    for reading in readings:
        chip = reading.chip
        if layout is Layout.NO_CHIPS:
            rows.append((chip.board, chip.slot + 1, 0, chip.slot, chip.model.name))
            continue
        numbers = (reading.logic_id, chip.slot) if layout is Layout.TWO_CHIPS else (reading.logic_id,)
        name = chip.model.name if layout is Layout.TWO_CHIPS else f"Ascend {chip.model.name}"
        rows.append((chip.board, chip.number, *numbers, name))
        if chip.number == chip.board_chips - 1:
            rows.append((chip.board, chip.board_chips, *("-" for _ in numbers), "Mcu"))
    return "".join("\t" + " ".join(f"{cell!s:<30}" for cell in row).rstrip() + "\n" for row in rows)


def listing(boards: Sequence[Board]) -> str:
    text = _lines(("Total Count", len(boards)))
    return text + "".join(
        "\n" + _lines(("NPU ID", chips[0].chip.board), ("Chip Count", chips[0].chip.board_chips))
        for chips in boards
    )


def _usages(reading: ChipReading) -> Iterator[tuple[str, object]]:
    model = reading.chip.model
    if model.layout is Layout.DDR:
        yield "DDR Capacity(MB)", model.memory_mib
        yield "DDR Usage Rate(%)", reading.memory_percent
    else:
        yield "DDR Capacity(MB)", model.ddr_mib
        yield "DDR Usage Rate(%)", 12 if model.ddr_mib else 0
    yield "DDR Hugepages Total(page)", 0
    yield "DDR Hugepages Usage Rate(%)", 0
    if model.layout is not Layout.DDR:
        yield "HBM Capacity(MB)", model.memory_mib
        yield "HBM Usage Rate(%)", reading.memory_percent
    yield "Aicore Usage Rate(%)", reading.aicore
    if model.has_cube_usage:
        yield "Aivector Usage Rate(%)", reading.vector
    yield "Aicpu Usage Rate(%)", 0
    yield "Ctrlcpu Usage Rate(%)", 6
    if model.layout is Layout.DDR and model.has_vector_cores:
        yield "Vectorcore Usage Rate(%)", reading.vector
    yield "DDR Bandwidth Usage Rate(%)", reading.bandwidth if model.layout is Layout.DDR else 0
    if model.layout is not Layout.DDR:
        yield "HBM Bandwidth Usage Rate(%)", reading.bandwidth
    if model.has_cube_usage:
        yield "NPU Utilization(%)", reading.aicore
        yield "Aicube Usage Rate(%)", reading.cube


def _memory(reading: ChipReading) -> Iterator[tuple[str, object]]:
    model = reading.chip.model
    has_hbm = model.layout is not Layout.DDR
    yield "DDR Capacity(MB)", model.ddr_mib if has_hbm else model.memory_mib
    yield "DDR Clock Speed(MHz)", 0 if has_hbm and not model.ddr_mib else 2133
    if has_hbm:
        yield "HBM Capacity(MB)", model.memory_mib
        yield "HBM Clock Speed(MHz)", 1600
        yield "HBM Temperature(C)", reading.celsius + 4


def _ecc(reading: ChipReading) -> Iterator[tuple[str, object]]:
    memory = "DDR" if reading.chip.model.layout is Layout.DDR else "HBM"
    counts = reading.ecc
    yield f"{memory} Single Bit Error Count", counts.single
    yield f"{memory} Double Bit Error Count", counts.double
    yield f"{memory} Single Bit Aggregate Total Err Cnt", counts.total_single
    yield f"{memory} Double Bit Aggregate Total Err Cnt", counts.total_double
    yield f"{memory} Single Bit Isolated Pages Count", counts.isolated_single
    yield f"{memory} Double Bit Isolated Pages Count", counts.isolated_double


def _chips_last(
    chips: Board, values: Callable[[ChipReading], Iterable[tuple[str, object]]], width: int = 30
) -> str:
    text = _lines(*_heading(chips), width=width)
    for reading in chips:
        number = [] if _without_chips(chips) else [("Chip ID", reading.chip.number)]
        text += "\n" + _lines(*values(reading), *number, width=width)
    return text


def _heading(chips: Board) -> list[tuple[str, object]]:
    heading: list[tuple[str, object]] = [("NPU ID", chips[0].chip.board)]
    return heading if _without_chips(chips) else [*heading, ("Chip Count", len(chips))]


def _without_chips(chips: Board) -> bool:
    return chips[0].chip.model.layout is Layout.NO_CHIPS


def _lines(*pairs: tuple[str, object], width: int = 30) -> str:
    return "".join(f"\t{key:<{width}} : {value}\n" for key, value in pairs)


# The table of `npu-smi info`, in all layouts.

_WIDE_NAME_LENGTH = 9  # of a process, whose column is narrower in wide tables


@dataclass(frozen=True, slots=True)
class _TableFormat:
    """Widths of the cells, of the first two values in the last one, and of the cells of the process table."""

    cells: tuple[int, ...]
    values: tuple[int, int]
    process_cells: tuple[int, ...]
    upper: tuple[str, ...]
    lower: tuple[str, ...]
    number: int  # width of an NPU's or chip's number


_USAGE = ("Memory-Usage(MB)", "HBM-Usage(MB)")
_FORMATS = {
    (Layout.DDR, False): _TableFormat(
        (31, 17, 54),
        (13, 18),
        (31, 17, 26, 27),
        ("NPU     Name", "Health"),
        ("Chip    Device", "Bus-Id"),
        8,
    ),
    (Layout.HBM, False): _TableFormat(
        (27, 15, 52), (12, 18), (27, 15, 26, 25), ("NPU   Name", "Health"), ("Chip", "Bus-Id"), 6
    ),
    (Layout.HBM, True): _TableFormat(
        (27, 15, 70), (21, 24), (27, 15, 20, 23, 25), ("NPU   Name", "Health"), ("Chip", "Bus-Id"), 6
    ),
    (Layout.TWO_CHIPS, False): _TableFormat(
        (27, 15, 52), (12, 18), (27, 15, 26, 25), ("NPU   Name", "Health"), ("Chip  Phy-ID", "Bus-Id"), 6
    ),
    (Layout.TWO_CHIPS, True): _TableFormat(
        (27, 15, 70), (21, 24), (27, 15, 20, 23, 25), ("NPU   Name", "Health"), ("Chip  Phy-ID", "Bus-Id"), 6
    ),
    (Layout.NO_CHIPS, True): _TableFormat(
        (8, 18, 15, 70),
        (22, 25),
        (27, 15, 20, 23, 25),
        ("NPU ID", "Name", "Health"),
        ("", "", "Bus-Id"),
        7,
    ),
}


def table(spec: AscendSpec, readings: Sequence[ChipReading]) -> str:
    """`readings` must not be empty."""
    layout = readings[0].chip.model.layout
    wide = spec.is_wide or layout is Layout.NO_CHIPS
    form = _FORMATS.get((layout, wide)) or _FORMATS[layout, False]
    return "".join(f"{line}\n" for line in _table_lines(spec, readings, form, layout))


def _table_lines(
    spec: AscendSpec, readings: Sequence[ChipReading], form: _TableFormat, layout: Layout
) -> Iterator[str]:
    width = sum(form.cells) + len(form.cells) - 1
    banner = f"npu-smi {spec.tool_version or spec.driver_version}"
    yield f"+{'-' * width}+"
    yield f"| {banner:<32} {'Version: ' + spec.driver_version:<{width - 35}} |"
    yield _border(form.cells, "-")
    yield _row(form.cells, *form.upper, _values(form, "Power(W)", "Temp(C)", "Hugepages-Usage(page)"))
    usage = _USAGE[:1] if layout is Layout.DDR else _USAGE
    utilization = "NPU Util(%)" if layout is Layout.NO_CHIPS else "AICore(%)"
    yield _row(form.cells, *form.lower, _values(form, utilization, *usage))
    yield _border(form.cells, "=")
    rows = [reading for reading in readings if reading.has_row]
    for place, reading in enumerate(rows):
        yield from _chip_lines(reading, form, layout)
        following = rows[place + 1] if place + 1 < len(rows) else None
        same_board = following is not None and following.chip.board == reading.chip.board
        yield f"+{'-' * width}+" if same_board else _border(form.cells, "=")
    if readings[0].chip.model.lists_processes:
        yield from _process_lines(spec, rows, form)


def _chip_lines(reading: ChipReading, form: _TableFormat, layout: Layout) -> Iterator[str]:
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
    """The two chips of an NPU have one power meter, which the first chip reports."""
    model = reading.chip.model
    if not model.chip_measures_power:
        return "NA"
    if model.layout is Layout.TWO_CHIPS and not reading.chip.leads_board:
        return "-"
    return f"{reading.watts:.1f}"


def _process_lines(spec: AscendSpec, readings: Sequence[ChipReading], form: _TableFormat) -> Iterator[str]:
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
            name = _process_name(spec, process, wide=wide)
            row = [place, str(process.pid), name, str(process.memory_mib), *(["NA"] if wide else [])]
            yield _row(cells, *row)
        if not found:
            yield _row((sum(cells) + len(cells) - 1,), f"No running processes found in NPU {board}")
        yield end


def _process_name(spec: AscendSpec, process: ChipProcess, *, wide: bool) -> str:
    if spec.in_container:
        return ""
    return process.name[:_WIDE_NAME_LENGTH] if wide else process.name


def _values(form: _TableFormat, *values: str) -> str:
    first, second = form.values
    padded = f"{values[0]:<{first}}{values[1]:<{second}}"
    return f"{padded}{values[2]}" if len(values) > 2 else padded


def _pair(used: int, total: int) -> str:
    return f"{used:<5}/ {total}"


def _row(widths: Sequence[int], *cells: str) -> str:
    return "|" + "|".join(f" {cell:<{width - 1}}" for width, cell in zip(widths, cells, strict=True)) + "|"


def _border(widths: Sequence[int], line: str) -> str:
    return "+" + "+".join(line * width for width in widths) + "+"


# The answer to each command line, and errors.

_NOISE = "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n"
LIBRARY = "libdrvdsmi_host.so"

NO_ACCESS = ToolAnswer(text=f"{_NOISE}dcmi module initialize failed. ret is -8005\n", exit_code=187)
ERRORS = {
    "no_access": NO_ACCESS,
    "in_use": ToolAnswer(
        text="dcmi model initialized failed, because the device is used. ret is -8020\n", exit_code=172
    ),
    "board_type": ToolAnswer(text="npu get board type failed. ret is -9005\n", exit_code=211),
    "no_npus": ToolAnswer(text="There is no NPU card on this server.\n", exit_code=0),
    # Another program of the same name, for other devices.
    "other_tool": ToolAnswer(text="npu-smi (AMD XDNA)\nNPU 0: RyzenAI-npu4, 3 % busy\n", exit_code=0),
}
_NOT_SUPPORTED = ToolAnswer(
    patterns=("info -t *",), text="This device does not support querying that.\n", exit_code=0
)
_UNKNOWN = ToolAnswer(text="Command or option is not found.\n", exit_code=255)
_WRONG_NPU = "Error parameter of -i\n"


def tool(spec: AscendSpec) -> Tool:
    return Tool(name="npu-smi", cost=spec.tool, library=LIBRARY, errors=ERRORS)


def answers(spec: AscendSpec, readings: Sequence[ChipReading]) -> Iterator[ToolAnswer]:
    """In order of precedence: the first match is used."""
    listed = [reading for reading in readings if reading.listed]
    if not listed:
        yield ERRORS["no_npus"]
        return
    boards = [list(chips) for _, chips in groupby(listed, key=lambda reading: reading.chip.board)]
    for chips in boards:
        if any(reading.hangs for reading in chips):
            number = chips[0].chip.board
            yield ToolAnswer(
                patterns=("info", f"info -t * -i {number}", f"info -t * -i {number} -*"), hangs=True
            )
    noise = _NOISE if spec.noisy else ""
    yield ToolAnswer(patterns=("info",), text=noise + table(spec, listed))
    yield ToolAnswer(patterns=("info -m",), text=noise + mapping(listed))
    yield ToolAnswer(patterns=("info -l",), text=noise + listing(boards))
    for chips in boards:
        for pattern, text in _board_answers(spec, chips):
            yield ToolAnswer(patterns=(f"info -t {pattern}",), text=noise + text)
    yield ToolAnswer(patterns=("info -t * -i *",), text=_WRONG_NPU, exit_code=255)
    yield _NOT_SUPPORTED
    yield _UNKNOWN


def _board_answers(spec: AscendSpec, chips: Sequence[ChipReading]) -> Iterator[tuple[str, str]]:
    """Lost chips are left out; the other chips of the board answer."""
    number = chips[0].chip.board
    reached = [reading for reading in chips if reading.has_row]
    if not reached:
        yield f"* -i {number}*", 'Failed to query "it" result.\n'
        return
    has_chips = chips[0].chip.model.layout is not Layout.NO_CHIPS
    for reading in reached:
        chip = f" -c {reading.chip.number}" if has_chips else ""
        yield f"health -i {number}{chip}", health(reading)
        if has_chips:
            yield f"board -i {number}{chip}", chip_board(reading)
    if has_chips:
        yield f"board -i {number}", board(spec, chips)
    else:
        yield f"board -i {number}", npu_board(spec, chips[0])
    yield f"usages -i {number}", usages(reached)
    yield f"common -i {number}", common(reached)
    yield f"ecc -i {number}", ecc(reached)
    yield f"memory -i {number}", memory(reached)
    yield f"volt -i {number}", volt(reached)
    yield f"proc-mem -i {number}", processes(spec, reached)
