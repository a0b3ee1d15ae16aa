"""`nvidia-smi` without options: the table for people, with its tables of MIG devices and processes.

A GPU has two lines of three cells before driver 450 and three lines since. Lines are known by what their
cells hold, since widths, spacing and headings change between drivers. The tool cuts long names: a model ends
in `...`, a program begins with it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from accelscope.model import AbsenceReason, Device, Partition, Process, pci_address
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.nvidia import cells, messages
from accelscope.vendors.nvidia.draft import NvidiaDraft
from accelscope.vendors.nvidia.programs import process_type, program_name

TABLE = "nvidia-smi"

_LINE_LIMIT = 1000
_BANNER = re.compile(r"\bNVIDIA-SMI\s+[0-9]")
# npu-smi's table has bars and addresses, too.
_OTHER_TOOL = re.compile(r"\|\s*(?:npu-smi\s|(?:NPU|Chip)\s)", re.IGNORECASE)
_DRIVER = re.compile(r"\b(?:Driver|KMD) Version:\s*([0-9][0-9.]{0,31})")
# The last word is the persistence mode, or on Windows the driver model.
_GPU = re.compile(r"([0-9]{1,4})\s+(\S.*?)(?:\s+(On|Off|N/A|WDDM|TCC|MCDM|ERR!))?")
_BUS = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?:\s+\S+)?")
# Fan, temperature, performance state, power and its limit.
_OF = r"(N/A|[^\s/][^/]*?)\s*/\s*(N/A|[^\s/][^/]*)"
_STATE = re.compile(rf"(\S+)\s+(\S+)\s+(\S+)\s+{_OF}")
_PAIR = re.compile(_OF)
_MIG = re.compile(r"([0-9]{1,4})\s+([0-9]{1,4})\s+([0-9]{1,4})\s+([0-9]{1,4})")
_INSTANCE = r"(?:(N/A|[0-9]{1,4})\s+(N/A|[0-9]{1,4})\s+)?"  # GPU and compute instance, since driver 450
_PROCESS = re.compile(rf"([0-9]{{1,4}})\s+{_INSTANCE}([0-9]{{1,10}})\s+([CGM+]{{1,5}})\s+(\S.*?)\s+(\S+)")
_RULER = re.compile(r"[|+\s=-]*")
_CUT = "..."


@dataclass(slots=True)
class _Table:
    """One table. A tool that loops prints one after another, of which the last counts."""

    driver_version: str | None = None
    drafts: list[NvidiaDraft] = field(default_factory=list)
    lines_of_gpu: int = 0  # that were read of the last GPU
    section: str = "gpus"  # `other`: a table of another tool
    in_rows: bool = False  # below the headings
    processes: list[tuple[int, Process]] = field(default_factory=list)  # with the GPU's index


def parse_table(text: str) -> Parsed:
    table = _Table()
    said = messages.Said()
    rejected = Rejections()
    for line in text.lstrip("\ufeff").split("\n"):
        bare = line.strip()[:_LINE_LIMIT]
        message = messages.message_of(bare) if bare[:1] != "|" else None
        if message is not None:
            said.add(message)
        elif _BANNER.search(bare):
            driver = _DRIVER.search(bare)
            table = _Table(driver[1] if driver else None)
        elif _OTHER_TOOL.match(bare):
            table.section = "other"
            rejected.add(line, "not_a_row")
        elif bare.startswith("|") and not _take(table, bare, rejected):
            rejected.add(line, "not_a_row")
    devices = messages.with_unreachable(_devices(table, rejected), said)
    if not table.drafts:
        return Parsed(devices=devices, error=messages.no_reading(text, TABLE), rejected=rejected.listed())
    for message in said:
        rejected.add(message.text, message.reason)
    return Parsed(devices, tuple(_placed(table.processes, devices)), rejected=rejected.listed())


def _take(table: _Table, line: str, rejected: Rejections) -> bool:
    """Whether the line is a part of the table; headings and rulers are."""
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
    gpu, bus = _GPU.fullmatch(row[0]), _BUS.fullmatch(row[1])
    if gpu and bus:
        draft = NvidiaDraft()
        draft.take("index", gpu[1], cells.count, "GPU")
        draft.take("model", gpu[2], cells.words, "Name")
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
    """The count of volatile uncorrected errors; `Off` where ECC is, and in MIG mode `On` without a count."""
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
    # Beside it is the compute mode: `9%      Default`, `N/A   E. Process`.
    draft.take("utilization_ratio", row[2].split(None, 1)[0] if row[2] else "", cells.ratio, "GPU-Util")
    return True


def _pair(cell: str) -> tuple[str, str]:
    """Used and total; a marker stands for both."""
    pair = _PAIR.fullmatch(cell) if cells.absence(cell) is None else None
    return (pair[1], pair[2]) if pair else (cell, cell)


def _take_mig(table: _Table, row: list[str]) -> bool:
    """GPU, GPU instance, compute instance and number of a MIG device; its BAR1 is on a line without them.
    What the devices of one GPU instance share stands at the first of them."""
    if not row[0]:
        return True
    numbers = _MIG.fullmatch(row[0])
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
    """Of a title that was cut at its beginning only a path is still known to be the program: all that is left
    of another may be arguments."""
    if not title.startswith(_CUT):
        return program_name(title)
    rest = title.removeprefix(_CUT)
    is_windows = rest.casefold().endswith(".exe")
    if not re.search(r"[/\\]", rest) or (" " in rest and not is_windows):
        return None
    return re.split(r"[/\\]", rest)[-1] or None


def _devices(table: _Table, rejected: Rejections) -> Iterator[Device]:
    for draft in table.drafts:
        rejected.extend(draft.rejected)
        yield draft.device()


def _placed(processes: list[tuple[int, Process]], devices: tuple[Device, ...]) -> Iterator[Process]:
    """With the ids of their device and MIG instance."""
    by_index = {device.index: device for device in devices if device.index is not None}
    for index, process in processes:
        device = by_index.get(index)
        if device is None:
            yield process
            continue
        instance = (process.gpu_instance_id, process.compute_instance_id)
        parts = [p.id for p in device.partitions if (p.gpu_instance_id, p.compute_instance_id) == instance]
        yield replace(process, device=device.id, partition=parts[0] if parts else None)
