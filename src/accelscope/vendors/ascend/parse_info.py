"""`npu-smi info`: a table with two lines for each chip, and below it a table of processes.

There are five layouts, each with a wide form. The header lines name the values.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from accelscope.model import AbsenceReason, Device, Process, ProcessType
from accelscope.parsing import ParseResult, Rejections
from accelscope.vendors.ascend import key_values, quantities
from accelscope.vendors.ascend.draft import AscendDraft, chip_device_id, health_of
from accelscope.vendors.common.values import program_name

# The box tables of npu-smi: a cell contains several values, and its header cell several names.
#
# A header cell such as `Power(W) Temp(C) Hugepages-Usage(page)` names the values in the cells below it, in
# this order. Which values exist, and in which cell, depends on chip and version.

_LINE_LIMIT = 4000  # the widest table has 116 characters

# Names of several words first; all others are one word. Units follow in brackets.
_COLUMN = re.compile(
    r"(npu id|npu util|ai core|process id in container|process id|process name|process memory|[^\s(]+)"
    r"(?:\([^)]*\))?",
    re.IGNORECASE,
)
_ALIASES = {"npu id": "npu", "npu util": "utilization", "aicore": "utilization", "ai core": "utilization"}
# `59718/ 65536` is one value, as is `NA   / 3513`; everything else ends at a blank.
_VALUE = re.compile(r"[\w.+-]{1,40}\s*/\s*[\w.+-]{1,40}|\S+")

Columns = tuple[tuple[str, ...], ...]  # names by cell


def cells_of(line: str) -> tuple[str, ...] | None:
    """The stripped cells of a line of a table, or None if it is not a complete line."""
    bare = line.strip("\ufeff \t\r")
    if len(bare) > _LINE_LIMIT or len(bare) < 2 or not (bare.startswith("|") and bare.endswith("|")):
        return None
    return tuple(cell.strip() for cell in bare[1:-1].split("|"))


def is_broken_line(line: str) -> bool:
    """Whether it starts like a line of a table but does not end like one."""
    bare = line.strip("\ufeff \t\r")
    return bare.startswith("|") and cells_of(line) is None


def columns_of(cells: Sequence[str]) -> Columns:
    return tuple(tuple(_name(match[1]) for match in _COLUMN.finditer(cell)) for cell in cells)


def has_column(columns: Columns, name: str) -> bool:
    return any(name in names for names in columns)


def cell_under(cells: Sequence[str], columns: Columns, name: str) -> str | None:
    """The cell that contains the column."""
    for cell, names in zip(cells, columns, strict=False):
        if name in names:
            return cell
    return None


def values_of(cells: Sequence[str], columns: Columns) -> Mapping[str, str] | None:
    """The values of a line by the names in the header. None if the line has other cells than the header.

    An ambiguous value is left out.
    """
    if len(cells) != len(columns):
        return None
    found: dict[str, str] = {}
    for cell, names in zip(cells, columns, strict=True):
        found.update(_in_cell(cell, names))
    return found


def _in_cell(cell: str, names: tuple[str, ...]) -> Mapping[str, str]:
    if len(names) == 1:
        return {names[0]: cell}
    if "name" in names[1:]:  # `0     910B3`; a chip's name may contain blanks
        words = cell.split(None, len(names) - 1)
        return dict(zip(names, words, strict=False))
    if names[:1] == ("chip",):  # `0     15`; the second number is optional
        return dict(zip(names, cell.split(), strict=False))
    values = _VALUE.findall(cell)
    if len(values) == len(names):
        return dict(zip(names, values, strict=True))
    # Usage columns contain pairs. So pairs and single values can be matched separately if one is missing.
    found: dict[str, str] = {}
    for pairs in (True, False):
        matching_names = [name for name in names if name.endswith("usage") is pairs]
        matching_values = [value for value in values if ("/" in value) is pairs]
        if len(matching_names) == len(matching_values):
            found.update(zip(matching_names, matching_values, strict=True))
    return found


def _name(text: str) -> str:
    folded = " ".join(text.casefold().split())
    return _ALIASES.get(folded, folded)


TOOL = "npu-smi info"

_BANNER = re.compile(r"npu-smi\s+(\S{1,64})\s+Version:\s*(\S{1,64})", re.IGNORECASE)
_MOST_CHIPS = 4096
_MOST_PROCESSES = 100_000
_PAIR = re.compile(r"\s*([^/]{0,40}?)\s*/\s*([^/]{0,40}?)\s*")

Chip = tuple[int, int | None]  # NPU id and chip; the 950 has no chip numbers


@dataclass(slots=True)
class _Table:
    """The state of the parser. `first` is the upper line of a chip, until its lower line follows."""

    driver_version: str | None = None
    upper: Columns = ()
    lower: Columns = ()
    process: Columns = ()
    first: tuple[str, Mapping[str, str]] | None = None
    chips: dict[Chip, AscendDraft] = field(default_factory=dict)
    dashes: set[Chip] = field(default_factory=set)  # chips with `-` instead of their power
    processes: list[tuple[Chip, Process]] = field(default_factory=list)
    rejected: Rejections = field(default_factory=Rejections)


def parse(text: str) -> ParseResult:
    read = _Table()
    for line in text.lstrip("\ufeff").split("\n"):
        row = cells_of(line)
        if row is not None:
            _take(read, row, line)
        elif is_broken_line(line):
            read.rejected.add(line, "broken_line")
        elif read.upper:
            message = key_values.message_of(line)
            if message is not None:
                read.rejected.add(message.text, message.reason)
    _drop_first(read)
    if not read.chips:
        return ParseResult(error=key_values.no_values_error(text, TOOL), rejected=read.rejected.listed())
    devices = _devices(read)
    return ParseResult(
        devices=tuple(devices.values()),
        processes=tuple(_of_device(process, chip, devices) for chip, process in read.processes),
        rejected=read.rejected.listed(),
    )


def is_complete(text: str) -> bool:
    """Whether the table ends with a closing line."""
    for line in reversed(text.split("\n")):
        bare = line.strip()
        if bare.startswith(("+", "|")):
            return bare.startswith("+")
    return False


def has_process_table(text: str) -> bool:
    """Whether there is a table of processes; for some boards npu-smi prints none."""
    return any("Process id" in line for line in text.split("\n") if line.lstrip().startswith("|"))


def chip_of(device: Device) -> Chip:
    assert device.board_id is not None  # a row without one is rejected
    return device.board_id, device.chip_id


def _take(read: _Table, row: tuple[str, ...], line: str) -> None:
    banner = _BANNER.match(" ".join(row)) if len(row) == 1 else None
    if banner is not None:
        read.driver_version = banner[2]
        return
    columns = columns_of(row)
    names_npus = has_column(columns, "npu")
    if names_npus and has_column(columns, "power"):
        _drop_first(read)
        read.upper, read.lower, read.process = columns, (), ()
    elif names_npus and has_column(columns, "process id"):
        _drop_first(read)
        read.process = columns
    elif read.upper and has_column(columns, "bus-id"):
        read.lower = columns
    elif read.process:
        _take_process(read, row)
    elif read.upper and read.lower:
        _take_chip_line(read, row, line)
    else:
        read.rejected.add(line, "no_header")


def _take_chip_line(read: _Table, row: tuple[str, ...], line: str) -> None:
    """The lower line has a bus address where the upper line has the health. Lines are recognised by this,
    because after an error npu-smi omits one of the two."""
    under_bus = cell_under(row, read.lower, "bus-id")
    is_lower = under_bus is not None and (
        quantities.address(under_bus) is not None
        or (read.first is not None and quantities.absence(under_bus) is not None)
    )
    values = values_of(row, read.lower if is_lower else read.upper)
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
    board = quantities.count(upper.get("npu", ""))
    chip = quantities.count(lower["chip"]) if "chip" in lower else None
    has_chips = has_column(read.lower, "chip")
    if board is None or (has_chips and chip is None):
        read.rejected.add(lines, "unidentified")
        return
    if len(read.chips) >= _MOST_CHIPS:
        read.rejected.add(lines, "too_many")
        return
    draft = AscendDraft(board=board, chip=chip)
    draft.take("model", upper.get("name"), quantities.words, "Name")
    draft.values["health"] = health_of(upper.get("health", ""))
    draft.take_power(upper.get("power", "?"), "Power(W)")
    if quantities.absence(upper.get("power", "?")) is AbsenceReason.NO_SAMPLE:
        read.dashes.add((board, chip))
    draft.take("temperature_celsius", upper.get("temp", "?"), quantities.celsius, "Temp(C)")
    # The number of the chip in the runtime. Without chip numbers it is the NPU id.
    draft.take("index", lower.get("device") if has_chips else upper["npu"], quantities.count, "Device")
    draft.take("physical_id", lower.get("phy-id"), quantities.count, "Phy-ID")
    draft.take("pci_address", lower.get("bus-id"), quantities.address, "Bus-Id")
    draft.take("utilization_ratio", lower.get("utilization", "?"), quantities.ratio, "AICore(%)")
    _take_memory(draft, lower, read.lower)
    if read.driver_version is not None:
        draft.values["driver_version"] = read.driver_version
    read.chips[board, chip] = draft


def _take_memory(draft: AscendDraft, values: Mapping[str, str], columns: Columns) -> None:
    """HBM if the chip has it, even if it also has DDR for its own CPUs. Hugepages are part of the host's
    memory."""
    for column in ("hbm-usage", "memory-usage"):
        if not has_column(columns, column):
            continue
        pair = _PAIR.fullmatch(values.get(column, ""))
        if pair is None:
            draft.reject(column, values.get(column, ""))
            for place in ("memory_used_bytes", "memory_total_bytes"):
                draft.absences[place] = AbsenceReason.UNREADABLE
            return
        if quantities.count(pair[2]) != 0:  # `0 / 0`: no such memory
            draft.take("memory_used_bytes", pair[1], quantities.memory, column)
            draft.take("memory_total_bytes", pair[2], quantities.memory, column)
            return
    for place in ("memory_used_bytes", "memory_total_bytes"):
        draft.absences[place] = AbsenceReason.NOT_SUPPORTED


def _without_name(row: tuple[str, ...]) -> str:
    """What follows the pid may be a command line with secrets, so it is left out."""
    return " | ".join(row[:2])


def _take_process(read: _Table, row: tuple[str, ...]) -> None:
    if row[0].casefold().startswith("no running processes"):
        return
    values = values_of(row, read.process)
    pid = quantities.count(values.get("process id", "")) if values is not None else None
    board = quantities.count(values.get("npu", "")) if values is not None else None
    if values is None or not pid or board is None:
        read.rejected.add(_without_name(row), "not_a_row")
        return
    if len(read.processes) >= _MOST_PROCESSES:
        read.rejected.add(_without_name(row), "too_many")
        return
    memory = values.get("process memory", "")
    if quantities.memory(memory) is None and quantities.absence(memory) is None:
        read.rejected.add(f"Process memory(MB): {memory}", "unreadable")
    process = Process(
        pid=pid,
        name=program_name(values.get("process name", ""), quantities.absence),
        type=ProcessType.COMPUTE,
        memory_bytes=quantities.memory(memory),
    )
    read.processes.append(((board, quantities.count(values.get("chip", ""))), process))


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
