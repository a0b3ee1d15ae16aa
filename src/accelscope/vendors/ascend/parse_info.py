"""`npu-smi info`: all chips in a table, two lines each, and below it their processes.

There are five layouts, and a wide form of each; the header lines tell which values there are.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from accelscope.model import AbsenceReason, Device, Process, ProcessType
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.readers.ascend import cells, messages, table
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.health import health_of
from accelscope.readers.ascend.identity import chip_device_id
from accelscope.readers.programs import program_name

TOOL = "npu-smi info"

_BANNER = re.compile(r"npu-smi\s+(\S{1,64})\s+Version:\s*(\S{1,64})", re.IGNORECASE)
_MOST_CHIPS = 4096
_MOST_PROCESSES = 100_000
_PAIR = re.compile(r"\s*([^/]{0,40}?)\s*/\s*([^/]{0,40}?)\s*")

Chip = tuple[int, int | None]  # NPU id and chip; the 950 has no chips


@dataclass(slots=True)
class _Table:
    """What was read so far. `first` is the upper line of a chip whose lower one is still to come."""

    driver_version: str | None = None
    upper: table.Columns = ()
    lower: table.Columns = ()
    process: table.Columns = ()
    first: tuple[str, Mapping[str, str]] | None = None
    chips: dict[Chip, Draft] = field(default_factory=dict)
    dashes: set[Chip] = field(default_factory=set)  # chips whose power is told at another one
    processes: list[tuple[Chip, Process]] = field(default_factory=list)
    rejected: Rejections = field(default_factory=Rejections)


def parse(text: str) -> Parsed:
    read = _Table()
    for line in text.lstrip("\ufeff").split("\n"):
        row = table.cells_of(line)
        if row is not None:
            _take(read, row, line)
        elif table.is_broken_line(line):
            read.rejected.add(line, "broken_line")
        elif read.upper:
            message = messages.message_of(line)
            if message is not None:
                read.rejected.add(message.text, message.reason)
    _drop_first(read)
    if not read.chips:
        return Parsed(error=messages.no_reading(text, TOOL), rejected=read.rejected.listed())
    devices = _devices(read)
    return Parsed(
        devices=tuple(devices.values()),
        processes=tuple(_of_device(process, chip, devices) for chip, process in read.processes),
        rejected=read.rejected.listed(),
    )


def is_whole(text: str) -> bool:
    """Whether the table ends where npu-smi ends it: below its last line."""
    for line in reversed(text.split("\n")):
        bare = line.strip()
        if bare.startswith(("+", "|")):
            return bare.startswith("+")
    return False


def has_process_table(text: str) -> bool:
    """Whether this tool lists processes here; on some boards it does not."""
    return any("Process id" in line for line in text.split("\n") if line.lstrip().startswith("|"))


def chip_of(device: Device) -> Chip:
    assert device.board_id is not None  # a row without one is refused
    return device.board_id, device.chip_id


def _take(read: _Table, row: tuple[str, ...], line: str) -> None:
    banner = _BANNER.match(" ".join(row)) if len(row) == 1 else None
    if banner is not None:
        read.driver_version = banner[2]
        return
    columns = table.columns_of(row)
    names_npus = table.has_column(columns, "npu")
    if names_npus and table.has_column(columns, "power"):
        _drop_first(read)
        read.upper, read.lower, read.process = columns, (), ()
    elif names_npus and table.has_column(columns, "process id"):
        _drop_first(read)
        read.process = columns
    elif read.upper and table.has_column(columns, "bus-id"):
        read.lower = columns
    elif read.process:
        _take_process(read, row)
    elif read.upper and read.lower:
        _take_chip_line(read, row, line)
    else:
        read.rejected.add(line, "no_header")


def _take_chip_line(read: _Table, row: tuple[str, ...], line: str) -> None:
    """Upper and lower lines are told apart by what stands where the one has the health and the other the bus
    address: after an error npu-smi leaves out one of the two."""
    under_bus = table.cell_under(row, read.lower, "bus-id")
    is_lower = under_bus is not None and (
        cells.address(under_bus) is not None
        or (read.first is not None and cells.absence(under_bus) is not None)
    )
    values = table.values_of(row, read.lower if is_lower else read.upper)
    if values is None:
        read.rejected.add(line, "not_a_row")
    elif not is_lower:
        _drop_first(read)
        read.first = (line, values)
    elif read.first is None:
        read.rejected.add(line, "incomplete")
    else:
        upper = read.first
        read.first = None
        _take_chip(read, upper[1], values, f"{upper[0].strip()} {line.strip()}")


def _take_chip(read: _Table, upper: Mapping[str, str], lower: Mapping[str, str], lines: str) -> None:
    board = cells.count(upper.get("npu", ""))
    chip = cells.count(lower["chip"]) if "chip" in lower else None
    has_chips = table.has_column(read.lower, "chip")
    if board is None or (has_chips and chip is None):
        read.rejected.add(lines, "unidentified")
        return
    if len(read.chips) >= _MOST_CHIPS:
        read.rejected.add(lines, "too_many")
        return
    draft = Draft(board, chip)
    draft.take("model", upper.get("name"), cells.words, "Name")
    draft.values["health"] = health_of(upper.get("health", ""))
    draft.take_power(upper.get("power", "?"), "Power(W)")
    if cells.absence(upper.get("power", "?")) is AbsenceReason.NO_SAMPLE:
        read.dashes.add((board, chip))
    draft.take("temperature_celsius", upper.get("temp", "?"), cells.celsius, "Temp(C)")
    # The number that the runtime uses. Where there are no chips, it is the NPU's own.
    draft.take("index", lower.get("device") if has_chips else upper["npu"], cells.count, "Device")
    draft.take("physical_id", lower.get("phy-id"), cells.count, "Phy-ID")
    draft.take("pci_address", lower.get("bus-id"), cells.address, "Bus-Id")
    draft.take("utilization_ratio", lower.get("utilization", "?"), cells.ratio, "AICore(%)")
    _take_memory(draft, lower, read.lower)
    if read.driver_version is not None:
        draft.values["driver_version"] = read.driver_version
    read.chips[board, chip] = draft


def _take_memory(draft: Draft, values: Mapping[str, str], columns: table.Columns) -> None:
    """HBM where the chip has it, also where DDR is there beside it for the chip's own CPUs. Hugepages are a
    part of the host's memory."""
    for column in ("hbm-usage", "memory-usage"):
        if not table.has_column(columns, column):
            continue
        pair = _PAIR.fullmatch(values.get(column, ""))
        if pair is None:
            draft.reject(f"{column}: {values.get(column, '')}")
            for place in ("memory_used_bytes", "memory_total_bytes"):
                draft.absences[place] = AbsenceReason.UNREADABLE
            return
        if cells.count(pair[2]) != 0:  # `0 / 0`: no such memory
            draft.take("memory_used_bytes", pair[1], cells.memory, column)
            draft.take("memory_total_bytes", pair[2], cells.memory, column)
            return
    for place in ("memory_used_bytes", "memory_total_bytes"):
        draft.absences[place] = AbsenceReason.NOT_SUPPORTED


def _without_name(row: tuple[str, ...]) -> str:
    """What comes after the pid may be a command line, which is not repeated."""
    return " | ".join(row[:2])


def _take_process(read: _Table, row: tuple[str, ...]) -> None:
    if row[0].casefold().startswith("no running processes"):
        return
    values = table.values_of(row, read.process)
    pid = cells.count(values.get("process id", "")) if values is not None else None
    board = cells.count(values.get("npu", "")) if values is not None else None
    if values is None or not pid or board is None:
        read.rejected.add(_without_name(row), "not_a_row")
        return
    if len(read.processes) >= _MOST_PROCESSES:
        read.rejected.add(_without_name(row), "too_many")
        return
    memory = values.get("process memory", "")
    if cells.memory(memory) is None and cells.absence(memory) is None:
        read.rejected.add(f"Process memory(MB): {memory}", "unreadable")
    process = Process(
        pid=pid,
        name=program_name(values.get("process name", ""), cells.absence),
        type=ProcessType.COMPUTE,
        memory_bytes=cells.memory(memory),
    )
    read.processes.append(((board, cells.count(values.get("chip", ""))), process))


def _devices(read: _Table) -> dict[Chip, Device]:
    measured = {board for (board, _), draft in read.chips.items() if "power_watts" in draft.values}
    devices: dict[Chip, Device] = {}
    for chip, draft in read.chips.items():
        if chip in read.dashes and chip[0] in measured:
            draft.absences["power_watts"] = AbsenceReason.SHARED
        devices[chip] = draft.device()
        read.rejected.extend(draft.rejected)
    return devices


def _of_device(process: Process, chip: Chip, devices: Mapping[Chip, Device]) -> Process:
    device = devices.get(chip)
    if device is None:
        return replace(process, device=chip_device_id(board=chip[0], chip=chip[1]))
    return replace(process, device=device.id, device_index=device.index)


def _drop_first(read: _Table) -> None:
    if read.first is not None:
        read.rejected.add(read.first[0], "incomplete")
        read.first = None
