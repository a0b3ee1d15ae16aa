"""What npu-smi answers to its other commands: `key : value` lines, and the map of numbers."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from accelscope.vendors.ascend.simulated.models import Layout
from accelscope.vendors.ascend.simulated.readings import ChipReading
from accelscope.vendors.ascend.simulated.spec import AscendSpec

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
    """Of an NPU that is a chip: both at once."""
    die = _lines(("Chip Name", reading.chip.model.name), ("VDie ID", reading.chip.die))
    return board(spec, [reading]) + die


def usages(chips: Board) -> str:
    return _chips_last(chips, _usages)


def memory(chips: Board) -> str:
    return _chips_last(chips, _memory)


def volt(chips: Board) -> str:
    return _chips_last(chips, lambda reading: [("Voltage(V)", f"{reading.volts:.2f}")])


def common(chips: Board) -> str:
    """The chip's number stands before its values here. The controller of the board comes last."""
    text = _lines(*_heading(chips))
    for reading in chips:
        chip = reading.chip
        values: list[tuple[str, object]] = [] if _without_chips(chips) else [("Chip ID", chip.number)]
        values += [("Memory Usage Rate(%)", 0 if chip.model.ddr_mib == 0 else 12)]
        if chip.model.layout is not Layout.DDR:
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
    """Numbers of all chips, with those in the runtime and in /dev, and of the controllers of their boards."""
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
