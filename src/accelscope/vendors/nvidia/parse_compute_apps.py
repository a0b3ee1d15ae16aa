"""`nvidia-smi --query-compute-apps=… --format=csv[,noheader][,nounits]`: one row per process and GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from accelscope.model import Process, ProcessType, pci_address
from accelscope.parsing.parsed import Parsed, ParseError
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.nvidia import cells, csv_rows, messages
from accelscope.vendors.nvidia.gpu import gpu_id
from accelscope.vendors.nvidia.programs import program_name

COMPUTE_APPS = "nvidia-smi --query-compute-apps"
COMPUTE_APPS_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")

_ALIASES: Mapping[str, str] = {"used_gpu_memory": "used_memory", "name": "process_name"}
_KNOWN = frozenset((*COMPUTE_APPS_FIELDS, "gpu_bus_id", "gpu_serial"))
_NOTHING_RUNS = "no running processes found"


def parse_compute_apps(text: str, fields: Sequence[str] | None = None) -> Parsed:
    """Compute processes, each with the id of its device. `fields` are the columns of an output without a
    header line; where there is a header, it says them itself."""
    columns = csv_rows.asked(fields or COMPUTE_APPS_FIELDS, _ALIASES)
    processes: list[Process] = []
    rejected = Rejections()
    error: ParseError | None = None
    understood = False
    for line in text.lstrip("\ufeff").split("\n"):
        if not line.strip():
            continue
        found = csv_rows.header(line, _KNOWN, _ALIASES, columns)
        if found is not None and not _is_of_running_processes(found):
            return Parsed(
                error=ParseError("unrecognized", f"not the header of {COMPUTE_APPS}: {line.strip()[:200]}")
            )
        if found is not None or line.strip().casefold().startswith(_NOTHING_RUNS):
            columns = found or columns
            if not understood:
                rejected.clear()  # a banner before the output is not a part of it
            understood = True
            continue
        message = messages.message_of(line)
        if message is not None:
            if error is None and not message.warning:
                error = ParseError(message.reason, message.text)
            rejected.add(message.text, message.reason)
            continue
        row = columns.row(line, free_text="process_name")
        if row is not None and line.count(",") > columns.commas and _memory_unreadable(row):
            row = None  # the commas were not within the name after all
        process = None if row is None else _process(row, rejected)
        if process is None:
            rejected.add(line, _refusal(row))
        else:
            understood = True
            processes.append(process)
    if not understood:
        return Parsed(error=_no_rows(text, columns, error), rejected=rejected.listed())
    return Parsed(processes=tuple(processes), rejected=rejected.listed())


def _is_of_running_processes(columns: csv_rows.Columns) -> bool:
    """The list of finished ones (accounted apps) has a pid too, and the most memory it ever used."""
    return "pid" in columns.names and "max_memory_usage" not in columns.names


def _process(row: Mapping[str, str], rejected: Rejections) -> Process | None:
    pid = cells.count(row.get("pid", ""))
    if not pid:
        return None
    if _memory_unreadable(row):
        rejected.add(f"used_memory: {row['used_memory']}", "unreadable")
    uuid = cells.uuid(row.get("gpu_uuid", ""))
    serial_cell = row.get("gpu_serial", "")
    serial = None if cells.absence(serial_cell) else cells.identifier(serial_cell)
    pci = pci_address(row.get("gpu_bus_id", ""))
    device, partition = None, None
    if uuid is not None and uuid.startswith("MIG-"):
        partition = _named(uuid=uuid)
    else:
        device = _named(uuid=uuid, serial=serial, pci=pci)
    return Process(
        pid=pid,
        device=device,
        partition=partition,
        name=program_name(row.get("process_name", "")),
        type=ProcessType.COMPUTE,
        memory_bytes=cells.memory(row.get("used_memory", "")),
    )


def _named(uuid: str | None, serial: str | None = None, pci: str | None = None) -> str | None:
    """The id that these facts make; None where they identify nothing."""
    made = gpu_id(uuid=uuid, serial=serial, pci=pci)
    return None if made == gpu_id() else made


def _memory_unreadable(row: Mapping[str, str]) -> bool:
    cell = row.get("used_memory", "")
    return cells.memory(cell) is None and cells.absence(cell) is None


def _refusal(row: Mapping[str, str] | None) -> str:
    """Why a line is not a process: some drivers print a marker where the pid should be."""
    reason = cells.absence(row.get("pid", "")) if row else None
    return reason.value if reason is not None else "not_a_row"


def _no_rows(text: str, columns: csv_rows.Columns, told: ParseError | None) -> ParseError:
    """`told` is the tool's first message. Rows of other columns than were named come before it: without their
    names nothing of them can be read."""
    mismatch = columns.mismatch(text)
    if mismatch is None:
        return told or messages.no_reading(text, COMPUTE_APPS)
    return replace(mismatch, text=f"{mismatch.text}; the tool also says: {told.text}") if told else mismatch
