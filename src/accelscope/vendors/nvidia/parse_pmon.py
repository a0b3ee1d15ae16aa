"""`nvidia-smi pmon [-s u|m|um] -c N [-o DT]`: processes on devices, in columns named by a header.

With `-c N` the tool prints N samples with nothing between them. The last complete one is taken: it is the
newest, and in the first one utilisation is often not measured yet. A sample ends where a row contradicts it:
the same process on the same device again, or a device that is both idle and in use. It is complete if it
shows every device that the sample before it shows (an idle device has a row too) and its last row is whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelscope.model import Process
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.nvidia import cells, messages
from accelscope.vendors.nvidia.programs import process_type, program_name

PMON = "nvidia-smi pmon"


@dataclass(frozen=True, slots=True)
class _Row:
    device: int
    process: Process | None  # None: nothing runs on the device


class _Sample:
    def __init__(self) -> None:
        self.idle: set[int] = set()
        self.processes: dict[tuple[int, int], Process] = {}
        self.devices: set[int] = set()

    def contradicts(self, row: _Row) -> bool:
        if row.process is None:
            return row.device in self.devices
        return row.device in self.idle or (row.device, row.process.pid) in self.processes

    def add(self, row: _Row) -> None:
        self.devices.add(row.device)
        if row.process is None:
            self.idle.add(row.device)
        else:
            self.processes[row.device, row.process.pid] = row.process


def parse_pmon(text: str) -> Parsed:
    """Processes of the last complete sample, each with the index of its device."""
    columns: list[str] | None = None
    previous, current = _Sample(), _Sample()
    rejected = Rejections()
    lines = text.lstrip("\ufeff").split("\n")
    cut = False  # the output ends within a row
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if line.lstrip().startswith("#"):
            columns = _header(line) or columns
            continue
        message = messages.message_of(line)
        if message is not None:
            rejected.add(message.text, message.reason)
            continue
        if columns is None:
            continue  # a banner before the table
        named = _cells(line, columns)
        if named is None or (number == len(lines) and len(named) < len(columns)):
            # A process may have no name, but a line that the output ends with was cut, perhaps in a number.
            cut = number == len(lines)
            rejected.add(line, "truncated" if cut else "not_a_row")
            continue
        row = _row(named, rejected)
        if row is None:
            rejected.add(line, "not_a_row")
            continue
        if current.contradicts(row):
            previous, current = current, _Sample()
        current.add(row)
    if columns is None:
        return Parsed(error=messages.no_reading(text, PMON))
    complete = not cut and current.devices >= previous.devices
    chosen = current if complete or not previous.devices else previous
    return Parsed(processes=tuple(chosen.processes.values()), rejected=rejected.listed())


def _header(line: str) -> list[str] | None:
    """Names of the columns; None for the second header line, which has their units."""
    names = line.replace("#", " ").casefold().split()
    return names if "gpu" in names and "pid" in names else None


def _cells(line: str, columns: Sequence[str]) -> Mapping[str, str] | None:
    """Cells by column: the last one, the command, holds all that is left, with its blanks."""
    found = line.split(None, len(columns) - 1)
    return None if len(found) < len(columns) - 1 else dict(zip(columns, found, strict=False))


def _row(named: Mapping[str, str], rejected: Rejections) -> _Row | None:
    device = cells.count(named.get("gpu", ""))
    if device is None or "pid" not in named:
        return None
    if named["pid"] == "-":
        return _Row(device, None)
    pid = cells.count(named["pid"])
    if not pid:
        return None
    kind = process_type(named.get("type", "-"))
    if kind is None:
        rejected.add(f"type: {named['type']}", "unreadable")
    memory = cells.memory(named.get("fb", "-"))
    ratios = {column: cells.ratio(named.get(column, "-")) for column in ("sm", "mem", "enc", "dec")}
    for column, value in {**ratios, "fb": memory}.items():
        if value is None and cells.absence(named.get(column, "-")) is None:
            rejected.add(f"{column}: {named[column]}", "unreadable")
    return _Row(
        device,
        Process(
            pid=pid,
            device_index=device,
            name=program_name(named.get("command", "")),
            type=kind and kind[0],
            mps=kind and kind[1],
            memory_bytes=memory,
            utilization_ratio=ratios["sm"],
            memory_utilization_ratio=ratios["mem"],
            encoder_utilization_ratio=ratios["enc"],
            decoder_utilization_ratio=ratios["dec"],
        ),
    )


def without_command_lines(text: str) -> str:
    """Columns divided by blanks; the command is the last and may hold blanks itself."""
    lines = []
    columns = 0
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            if "command" in line.lower().split():
                columns = len(line.lstrip("# ").split())
            lines.append(line)
            continue
        cells_of_line = line.split(None, columns - 1) if columns else []
        if len(cells_of_line) == columns and columns:
            command = cells_of_line[-1].rstrip()
            start = line.rindex(command) if command else len(line)
            name = program_name(command) or command
            lines.append(line[:start] + name + line[start + len(command) :])
        else:
            lines.append(line)
    return "".join(lines)
