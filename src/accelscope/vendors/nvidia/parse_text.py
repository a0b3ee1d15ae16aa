"""Outputs of nvidia-smi without a machine format: `-L`, `--version`, `pmon`, the table without options."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from accelscope.model import (
    AbsenceReason,
    Device,
    Partition,
    Process,
    Vendor,
    device_id,
    is_masked,
    pci_address,
)
from accelscope.parsing import ParseResult, Rejections
from accelscope.vendors.common.values import words
from accelscope.vendors.nvidia import cells
from accelscope.vendors.nvidia.cells import process_type, program_name
from accelscope.vendors.nvidia.gpu import NvidiaDraft

# -L: the GPUs and, below each, its MIG devices with their uuids

LIST = "nvidia-smi -L"

_LINE_LIMIT = 1000
_GPU = re.compile(r"\s*GPU\s+(\d{1,4}):(.*)", re.ASCII)
# `MIG 1g.10gb     Device  2: (UUID: MIG-…)`; the profile's grammar is [<c>c.]<g>g.<mem>gb[+me|+gfx …].
_MIG = re.compile(r"\s*MIG\s+(\S{1,64})\s+Device\s+(\d{1,4}):\s*\(UUID:\s*([^\s)]{1,128})\)\s*", re.ASCII)
_OLD_MIG_UUID = re.compile(r"MIG-GPU-.{1,100}/(\d{1,4})/(\d{1,4})", re.ASCII)  # before R470: /<gi>/<ci>


def parse_list(text: str) -> ParseResult:
    drafts: list[NvidiaDraft] = []
    messages = cells.MessageSet()
    rejected = Rejections()
    for line in text.lstrip("\ufeff").split("\n"):
        if not line.strip():
            continue
        gpu, mig = (
            pattern.fullmatch(line.rstrip()) if len(line) <= _LINE_LIMIT else None for pattern in (_GPU, _MIG)
        )
        message = cells.parse_message(gpu[2] if gpu else line)  # a GPU may have a message instead of a name
        if message is not None:
            messages.add(replace(message, index=int(gpu[1])) if gpu else message)
        elif gpu is not None:
            drafts.append(_device(gpu[1], gpu[2]))
        elif mig is not None and drafts:
            drafts[-1].partitions.append(_partition(mig[1], mig[2], mig[3], parent=drafts[-1].id))
        else:
            rejected.add(line, "not_a_row")
    devices = cells.with_messages((draft.device() for draft in drafts), messages)
    if not drafts:
        return ParseResult(devices=devices, error=cells.missing_reading(text, LIST))
    for draft in drafts:
        rejected.extend(draft.rejected)
    for message in messages:
        rejected.add(message.text, message.reason)
    return ParseResult(devices=devices, rejected=rejected.listed())


def join_partitions(measured: ParseResult, listed: ParseResult) -> ParseResult:
    """Add the uuids and profiles of MIG devices, which only `-L` prints, to another output.

    Devices are matched by uuid, and their MIG devices by `Device n` of the list and `<index>` of the XML. A
    device without partitions, as in the CSV output, gets those of the list.
    """
    partitions: Mapping[str | None, tuple[Partition, ...]] = {
        device.uuid: device.partitions
        for device in listed.devices
        if device.uuid and not is_masked(device.uuid)
    }
    renamed: dict[str, str] = {}
    devices = tuple(
        replace(device, partitions=_joined(device.partitions, partitions.get(device.uuid, ()), renamed))
        for device in measured.devices
    )
    processes = tuple(
        replace(process, partition=renamed[process.partition]) if process.partition in renamed else process
        for process in measured.processes
    )
    return replace(measured, devices=devices, processes=processes)


def _joined(
    measured: tuple[Partition, ...], listed: tuple[Partition, ...], renamed: dict[str, str]
) -> tuple[Partition, ...]:
    by_index: Mapping[int | None, Partition] = {p.index: p for p in listed if p.index is not None}
    if not measured:
        return listed
    joined = []
    for partition in measured:
        entry = by_index.get(partition.index)
        if entry is None:
            joined.append(partition)
            continue
        new_id = partition.id if entry.uuid is None or is_masked(entry.uuid) else entry.id
        renamed[partition.id] = new_id
        joined.append(replace(partition, id=new_id, uuid=entry.uuid, profile=entry.profile))
    return tuple(joined)


def _device(index: str, rest: str) -> NvidiaDraft:
    draft = NvidiaDraft()
    name, bracket, tail = rest.rpartition("(UUID:")
    draft.take("index", index, cells.count, "index")
    draft.take("model", name if bracket else rest, words, "name")
    if bracket:
        draft.take("uuid", tail.strip().removesuffix(")"), cells.uuid, "uuid")
    return draft


def _partition(profile: str, index: str, uuid: str, *, parent: str) -> Partition:
    instances = _OLD_MIG_UUID.fullmatch(uuid)
    return Partition(
        id=f"{parent}/mig{int(index)}" if is_masked(uuid) else device_id(Vendor("nvidia"), uuid=uuid),
        uuid=uuid,
        index=int(index),
        profile=profile,
        gpu_instance_id=int(instances[1]) if instances else None,
        compute_instance_id=int(instances[2]) if instances else None,
    )


# --version: the versions of the tool, NVML, the driver and CUDA

VERSION = "nvidia-smi --version"

_VERSION_LINE = re.compile(r"\s*([A-Za-z][A-Za-z \-]{1,40}?)\s+version\s*:\s*(\S.{0,200}?)\s*", re.IGNORECASE)
_VERSION = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,6}){1,4}", re.ASCII)
# The first name is preferred: driver 610 prints `KMD version` and `DRIVER version : Deprecated, see …`.
_VERSION_NAMES = {
    "nvidia-smi": "nvidia_smi",
    "nvml": "nvml",
    "kmd": "driver",
    "driver": "driver",
    "cuda umd": "cuda",
    "cuda": "cuda",
}


def parse_version(text: str) -> ParseResult:
    found: dict[str, str] = {}
    rejected = Rejections()
    others = 0
    for line in text.lstrip("\ufeff").split("\n"):
        match = _VERSION_LINE.fullmatch(line[:300])
        name = match[1].casefold() if match else None
        if match is None or name not in _VERSION_NAMES:
            if line.strip():
                others += 1
                rejected.add(line, "not_a_version")
        elif _VERSION.fullmatch(match[2]):
            found[name] = match[2]
        elif cells.absence(match[2]) is None:
            rejected.add(line, "unreadable")
    if not found or others > len(found):  # another output that contains versions, such as `-q`
        return ParseResult(error=cells.missing_reading(text, VERSION))
    versions = {place: found[name] for name, place in reversed(_VERSION_NAMES.items()) if name in found}
    return ParseResult(versions=tuple(sorted(versions.items())), rejected=rejected.listed())


# pmon [-s u|m|um] -c N [-o DT]: processes on devices, in columns named by a header
#
# With `-c N` the tool prints N samples without a separator. The last complete sample is used: it is the
# newest, and the first often has no utilisation yet. A sample ends at a row that contradicts it: the same
# process on the same device again, or a device that is both idle and in use. A sample is complete if it
# contains every device of the previous one (an idle device has a row, too) and its last row is not truncated.

PMON = "nvidia-smi pmon"


@dataclass(frozen=True, slots=True)
class _Row:
    device: int
    process: Process | None  # None: the device is idle


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


def parse_pmon(text: str) -> ParseResult:
    """Processes of the last complete sample, each with the index of its device."""
    columns: list[str] | None = None
    previous, current = _Sample(), _Sample()
    rejected = Rejections()
    lines = text.lstrip("\ufeff").split("\n")
    truncated = False  # the output ends within a row
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if line.lstrip().startswith("#"):
            columns = _header(line) or columns
            continue
        message = cells.parse_message(line)
        if message is not None:
            rejected.add(message.text, message.reason)
            continue
        if columns is None:
            continue  # a banner before the table
        named = _cells(line, columns)
        if named is None or (number == len(lines) and len(named) < len(columns)):
            # A process may have no name, but a last line without line feed is truncated, perhaps in a number.
            truncated = number == len(lines)
            rejected.add(line, "truncated" if truncated else "not_a_row")
            continue
        row = _row(named, rejected)
        if row is None:
            rejected.add(line, "not_a_row")
            continue
        if current.contradicts(row):
            previous, current = current, _Sample()
        current.add(row)
    if columns is None:
        return ParseResult(error=cells.missing_reading(text, PMON))
    complete = not truncated and current.devices >= previous.devices
    chosen = current if complete or not previous.devices else previous
    return ParseResult(processes=tuple(chosen.processes.values()), rejected=rejected.listed())


def _header(line: str) -> list[str] | None:
    """Names of the columns; None for the second header line, which contains units."""
    names = line.replace("#", " ").casefold().split()
    return names if "gpu" in names and "pid" in names else None


def _cells(line: str, columns: Sequence[str]) -> Mapping[str, str] | None:
    """Cells by column. The last one, the command, may contain blanks."""
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
    """The output of pmon with program names instead of command lines."""
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


# Without options: the tables of GPUs, MIG devices and processes
#
# A GPU has two lines of three cells before driver 450 and three lines since. Lines are recognised by the
# content of their cells, because widths, spacing and headings change between drivers. The tool shortens long
# names: a model ends in `...`, a program begins with it.

TABLE = "nvidia-smi"
_BANNER = re.compile(r"\bNVIDIA-SMI\s+[0-9]")
# The table of npu-smi has bars and addresses, too.
_OTHER_TOOL = re.compile(r"\|\s*(?:npu-smi\s|(?:NPU|Chip)\s)", re.IGNORECASE)
_DRIVER = re.compile(r"\b(?:Driver|KMD) Version:\s*([0-9][0-9.]{0,31})")
# The last word is the persistence mode or, on Windows, the driver model.
_TABLE_GPU = re.compile(r"([0-9]{1,4})\s+(\S.*?)(?:\s+(On|Off|N/A|WDDM|TCC|MCDM|ERR!))?")
_BUS = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?:\s+\S+)?")
# Fan, temperature, performance state, power and its limit.
_VALUE_OF_LIMIT = r"(N/A|[^\s/][^/]*?)\s*/\s*(N/A|[^\s/][^/]*)"
_STATE = re.compile(rf"(\S+)\s+(\S+)\s+(\S+)\s+{_VALUE_OF_LIMIT}")
_PAIR = re.compile(_VALUE_OF_LIMIT)
_TABLE_MIG = re.compile(r"([0-9]{1,4})\s+([0-9]{1,4})\s+([0-9]{1,4})\s+([0-9]{1,4})")
_INSTANCE = r"(?:(N/A|[0-9]{1,4})\s+(N/A|[0-9]{1,4})\s+)?"  # GPU and compute instance, since driver 450
_PROCESS = re.compile(rf"([0-9]{{1,4}})\s+{_INSTANCE}([0-9]{{1,10}})\s+([CGM+]{{1,5}})\s+(\S.*?)\s+(\S+)")
_RULER = re.compile(r"[|+\s=-]*")
_ELLIPSIS = "..."


@dataclass(slots=True)
class _Table:
    """One table. With --loop the tool prints several, and the last is used."""

    driver_version: str | None = None
    drafts: list[NvidiaDraft] = field(default_factory=list)
    lines_of_gpu: int = 0  # lines of the last GPU so far
    section: str = "gpus"  # or `mig`, `processes`, `other` for a table of another tool
    in_rows: bool = False  # below the headings
    processes: list[tuple[int, Process]] = field(default_factory=list)  # with the GPU's index


def parse_table(text: str) -> ParseResult:
    table = _Table()
    messages = cells.MessageSet()
    rejected = Rejections()
    for line in text.lstrip("\ufeff").split("\n"):
        bare = line.strip()[:_LINE_LIMIT]
        message = cells.parse_message(bare) if bare[:1] != "|" else None
        if message is not None:
            messages.add(message)
        elif _BANNER.search(bare):
            driver = _DRIVER.search(bare)
            table = _Table(driver[1] if driver else None)
        elif _OTHER_TOOL.match(bare):
            table.section = "other"
            rejected.add(line, "not_a_row")
        elif bare.startswith("|") and not _take(table, bare, rejected):
            rejected.add(line, "not_a_row")
    devices = cells.with_messages(_devices(table, rejected), messages)
    if not table.drafts:
        return ParseResult(
            devices=devices, error=cells.missing_reading(text, TABLE), rejected=rejected.listed()
        )
    for message in messages:
        rejected.add(message.text, message.reason)
    return ParseResult(devices, tuple(_with_devices(table.processes, devices)), rejected=rejected.listed())


def _take(table: _Table, line: str, rejected: Rejections) -> bool:
    """Add a line to the table. False if the line is not part of one."""
    if _RULER.fullmatch(line):
        table.in_rows |= "=" in line
        table.lines_of_gpu = 0 if "-" in line else table.lines_of_gpu
        return True
    if table.section == "other":
        return False
    row = [cell.strip() for cell in line.strip("|").split("|")]
    if len(row) == 1 and row[0].startswith(("Processes:", "MIG devices:", "Compute processes:")):
        table.section = "mig" if row[0].startswith("MIG") else "processes"
        table.in_rows = False
        return True
    match table.section:
        case "gpus":
            taken = len(row) == 3 and _take_gpu(table, row)
        case "mig":
            taken = len(row) >= 3 and _take_mig(table, row)
        case _:
            taken = _take_process(table, "|".join(row), rejected)
    return taken or not table.in_rows


def _take_gpu(table: _Table, row: list[str]) -> bool:
    gpu, bus = _TABLE_GPU.fullmatch(row[0]), _BUS.fullmatch(row[1])
    if gpu and bus:
        draft = NvidiaDraft()
        draft.take("index", gpu[1], cells.count, "GPU")
        draft.take("model", gpu[2], words, "Name")
        draft.take("pci_address", bus[1], pci_address, "Bus-Id")
        if gpu[3] in ("On", "Off"):
            draft.take("persistence_mode", gpu[3], cells.flag, "Persistence-M")
        if table.driver_version is not None:
            draft.values["driver_version"] = table.driver_version
        _take_ecc(draft, row[2])
        table.drafts.append(draft)
        table.lines_of_gpu = 1
        return True
    if not table.drafts or table.lines_of_gpu not in (1, 2):
        return False
    table.lines_of_gpu += 1
    if table.lines_of_gpu == 2:
        return _take_state(table.drafts[-1], row)
    if row[0] or row[1]:
        return False
    table.drafts[-1].take("mig_enabled", row[2], cells.flag, "MIG M.")
    return True


def _take_ecc(draft: NvidiaDraft, cell: str) -> None:
    """The cell is the count of volatile uncorrected errors, `Off`, or in MIG mode `On`."""
    if cell in ("On", "Off"):
        draft.take("ecc_enabled", cell, cells.flag, "ECC")
    else:
        draft.take("ecc.uncorrected.volatile", cell, cells.count, "Volatile Uncorr. ECC")
        if "ecc.uncorrected.volatile" in draft.values:
            draft.values["ecc_enabled"] = True


def _take_state(draft: NvidiaDraft, row: list[str]) -> bool:
    state = _STATE.fullmatch(row[0])
    if state is None:
        return False
    draft.take("fans.0", state[1], cells.ratio, "Fan")
    draft.take("temperature_celsius", state[2], cells.celsius, "Temp")
    draft.take("performance_state", state[3], cells.performance_state, "Perf")
    draft.take("power_watts", state[4], cells.watts, "Pwr:Usage")
    draft.take("power_limit_watts", state[5], cells.watts, "Pwr:Cap")
    used, total = _pair(row[1])
    draft.take("memory_used_bytes", used, cells.memory, "Memory-Usage")
    draft.take("memory_total_bytes", total, cells.memory, "Memory-Usage")
    # The compute mode follows: `9%      Default`, `N/A   E. Process`.
    draft.take("utilization_ratio", row[2].split(None, 1)[0] if row[2] else "", cells.ratio, "GPU-Util")
    return True


def _pair(cell: str) -> tuple[str, str]:
    """Used and total; one marker counts for both."""
    pair = _PAIR.fullmatch(cell) if cells.absence(cell) is None else None
    return (pair[1], pair[2]) if pair else (cell, cell)


def _take_mig(table: _Table, row: list[str]) -> bool:
    """Add a MIG device. Its second line, with BAR1 memory, has no numbers and is ignored. The memory of a GPU
    instance is reported for the first of its MIG devices."""
    if not row[0]:
        return True
    numbers = _TABLE_MIG.fullmatch(row[0])
    if numbers is None:
        return False
    gpu, instance, compute, index = map(int, numbers.groups())
    draft = next((draft for draft in table.drafts if draft.values.get("index") == gpu), None)
    if draft is None:
        return False
    used, total = map(cells.memory, _pair(row[1]))
    shared = any(known.gpu_instance_id == instance for known in draft.partitions)
    if shared:
        for place in ("memory_total_bytes", "memory_used_bytes"):
            draft.absences[f"partitions.{index}.{place}"] = AbsenceReason.SHARED
    draft.partitions.append(
        Partition(
            id=f"{draft.id}/gi{instance}/ci{compute}",
            index=index,
            gpu_instance_id=instance,
            compute_instance_id=compute,
            memory_used_bytes=None if shared else used,
            memory_total_bytes=None if shared else total,
            multiprocessors=cells.count(row[2].split(None, 1)[0]) if row[2] else None,
        )
    )
    return True


def _take_process(table: _Table, row: str, rejected: Rejections) -> bool:
    if row.casefold().startswith("no running"):
        return True
    match = _PROCESS.fullmatch(row)
    if match is None or not int(match[4]):
        return not row or not table.in_rows
    kind = process_type(match[5])
    memory = cells.memory(match[7])
    if kind is None:
        rejected.add(f"type: {match[5]}", "unreadable")
    if memory is None and cells.absence(match[7]) is None:
        rejected.add(f"GPU Memory: {match[7]}", "unreadable")
    process = Process(
        pid=int(match[4]),
        device_index=int(match[1]),
        gpu_instance_id=cells.count(match[2] or ""),
        compute_instance_id=cells.count(match[3] or ""),
        name=_program(match[6]),
        type=kind and kind[0],
        mps=kind and kind[1],
        memory_bytes=memory,
    )
    table.processes.append((int(match[1]), process))
    return True


def _program(title: str) -> str | None:
    """The program of a title that may be shortened at its beginning. In that case only a path is certain to
    be the program: anything else may be arguments."""
    if not title.startswith(_ELLIPSIS):
        return program_name(title)
    rest = title.removeprefix(_ELLIPSIS)
    is_windows = rest.casefold().endswith(".exe")
    if not re.search(r"[/\\]", rest) or (" " in rest and not is_windows):
        return None
    return re.split(r"[/\\]", rest)[-1] or None


def _devices(table: _Table, rejected: Rejections) -> Iterator[Device]:
    for draft in table.drafts:
        rejected.extend(draft.rejected)
        yield draft.device()


def _with_devices(processes: list[tuple[int, Process]], devices: tuple[Device, ...]) -> Iterator[Process]:
    """Add the ids of device and MIG instance."""
    by_index = {device.index: device for device in devices if device.index is not None}
    for index, process in processes:
        device = by_index.get(index)
        if device is None:
            yield process
            continue
        instance = (process.gpu_instance_id, process.compute_instance_id)
        parts = [p.id for p in device.partitions if (p.gpu_instance_id, p.compute_instance_id) == instance]
        yield replace(process, device=device.id, partition=parts[0] if parts else None)
