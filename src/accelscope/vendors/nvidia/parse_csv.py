"""Rows of `nvidia-smi --query-…  --format=csv[,noheader][,nounits]`, by the names of their columns.

The tool does not quote. A header cell is the field's canonical name, with the unit in brackets where it has
one; without a header the columns are those that were asked for, in that order.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from accelscope.model import AbsenceReason, Device, Process, ProcessType, pci_address
from accelscope.parsing import Parsed, ParseError, Rejections
from accelscope.vendors.nvidia import cells
from accelscope.vendors.nvidia.cells import absence, is_number, parse_message, program_name
from accelscope.vendors.nvidia.gpu import THROTTLE_BITS, NvidiaDraft, gpu_id, with_distinct_ids

_NAME = re.compile(r"([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:\s*\[([^\[\]\s]{1,8})\])?", re.ASCII)
_EXTRA_COMMAS = 8  # in a name; more than that is not a row


@dataclass(frozen=True, slots=True)
class Columns:
    names: tuple[str, ...]  # canonical, lower case
    units: tuple[str, ...]  # as in the header; empty where it has none

    def row(self, line: str, free_text: str) -> dict[str, str] | None:
        """Cells by column, or None if the line does not have that many. Commas too many are taken to be
        within the column of free text, where there is one, unless that would swallow a value: rows of more
        columns than were named must not be read shifted."""
        cells = [cell.strip() for cell in line.split(",")]
        extra = len(cells) - len(self.names)
        if extra and (not 0 < extra <= _EXTRA_COMMAS or free_text not in self.names):
            return None
        if extra:
            start = self.names.index(free_text)
            end = start + extra + 1
            if any(is_number(cell) or absence(cell) for cell in cells[start + 1 : end]):
                return None
            cells[start:end] = [",".join(line.split(",")[start:end]).strip()]
        return {
            name: f"{cell} {unit}" if unit and cell[-1:].isdigit() else cell
            for name, unit, cell in zip(self.names, self.units, cells, strict=True)
        }

    @property
    def commas(self) -> int:
        return len(self.names) - 1

    def mismatch(self, text: str) -> ParseError | None:
        """What to say of an output whose rows all have another number of columns."""
        counts = {
            line.count(",") + 1 for line in text.split("\n") if "," in line and parse_message(line) is None
        }
        if not counts or len(self.names) in counts:
            return None
        return ParseError(
            "column_mismatch",
            f"rows of {max(counts)} columns, expected {len(self.names)} ({','.join(self.names)}): "
            "name the columns that were asked for",
        )


def query_columns(names: Iterable[str], aliases: Mapping[str, str]) -> Columns:
    """Columns of a query, as the caller asked for them."""
    bare = [name.partition("[")[0].strip().casefold() for name in names]  # a pasted header has units
    return Columns(tuple(aliases.get(name, name) for name in bare), ("",) * len(bare))


def parse_header(
    line: str, known: frozenset[str], aliases: Mapping[str, str], expected: Columns
) -> Columns | None:
    """Columns of a header line; None if the line is not one.

    Fields that nobody here knows may be among them: every driver version brings some. Of a line that is
    damaged half of the names must still be known; the others are then those that were asked for.
    """
    if not line.lstrip()[:1].isalpha():
        return None
    cells = line.casefold().split(",")
    same_count = len(cells) == len(expected.names)
    names, units, read, found = [], [], 0, 0
    for place, cell in enumerate(cells):
        match = _NAME.fullmatch(cell.strip())
        if match is None:
            if 2 * (place + 1 - read) > len(cells):
                return None
            names.append(expected.names[place] if same_count else "")
            units.append("")
            continue
        read += 1
        name = aliases.get(match[1], match[1])
        found += name in known
        names.append(name)
        units.append(match[2] or "")
    enough = found if read == len(cells) else 2 * found >= len(cells)
    return Columns(tuple(names), tuple(units)) if enough else None


# --- parse query gpu ------------------------------------------------------------
# `nvidia-smi --query-gpu=… --format=csv[,noheader][,nounits]`: one row per GPU.


QUERY_GPU = "nvidia-smi --query-gpu"
QUERY_GPU_FIELDS = (
    "index",
    "uuid",
    "name",
    "temperature.gpu",
    "utilization.gpu",
    "utilization.memory",
    "memory.total",
    "memory.used",
    "memory.free",
    "power.draw",
    "power.limit",
    "pcie.link.gen.current",
    "pcie.link.width.current",
)

_ECC_COUNTS = {
    "total": "",
    # NVML has one location under two names.
    "dram": ".dram",
    "device_memory": ".dram",
    "sram": ".sram",
    "sram.parity": ".sram_parity",
    "sram.secded": ".sram_secded",
    "register_file": ".register_file",
    "l1_cache": ".l1_cache",
    "l2_cache": ".l2_cache",
    "texture_memory": ".texture",
    "cbu": ".cbu",
}

# Name, place in the model, how to read it. Of several fields for one place the first with a value is taken:
# power.draw is an average on recent boards and what people compare with, so it goes before the last sample.
Field = tuple[str, str, cells.CellReader]
FIELDS: tuple[Field, ...] = (
    ("index", "index", cells.count),
    ("uuid", "uuid", cells.uuid),
    ("serial", "serial", cells.identifier),
    ("pci.bus_id", "pci_address", pci_address),
    ("name", "model", cells.words),
    ("driver_version", "driver_version", cells.words),
    ("kmd_version", "driver_version", cells.words),
    ("vbios_version", "firmware_version", cells.words),
    ("pstate", "performance_state", cells.performance_state),
    ("persistence_mode", "persistence_mode", cells.flag),
    ("ecc.mode.current", "ecc_enabled", cells.flag),
    ("mig.mode.current", "mig_enabled", cells.flag),
    ("utilization.gpu", "utilization_ratio", cells.ratio),
    ("utilization.memory", "memory_utilization_ratio", cells.ratio),
    ("utilization.encoder", "encoder_utilization_ratio", cells.ratio),
    ("utilization.decoder", "decoder_utilization_ratio", cells.ratio),
    ("utilization.jpeg", "jpeg_utilization_ratio", cells.ratio),
    ("utilization.ofa", "optical_flow_utilization_ratio", cells.ratio),
    ("memory.total", "memory_total_bytes", cells.memory),
    ("memory.used", "memory_used_bytes", cells.memory),
    ("memory.free", "memory_free_bytes", cells.memory),
    ("memory.reserved", "memory_reserved_bytes", cells.memory),
    ("temperature.gpu", "temperature_celsius", cells.celsius),
    ("temperature.memory", "sensors.memory", cells.celsius),
    ("power.draw", "power_watts", cells.watts),
    ("power.draw.instant", "power_watts", cells.watts),
    ("power.draw.average", "power_watts", cells.watts),
    ("power.limit", "power_limit_watts", cells.watts),
    ("enforced.power.limit", "power_limit_watts", cells.watts),
    ("power.default_limit", "power_limit_default_watts", cells.watts),
    ("power.min_limit", "power_limit_min_watts", cells.watts),
    ("power.max_limit", "power_limit_max_watts", cells.watts),
    ("fan.speed", "fans.0", cells.ratio),
    ("clocks.current.graphics", "clocks.graphics", cells.hertz),
    ("clocks.max.graphics", "clocks.graphics.max", cells.hertz),
    ("clocks.current.sm", "clocks.sm", cells.hertz),
    ("clocks.max.sm", "clocks.sm.max", cells.hertz),
    ("clocks.current.memory", "clocks.memory", cells.hertz),
    ("clocks.max.memory", "clocks.memory.max", cells.hertz),
    ("clocks.current.video", "clocks.video", cells.hertz),
    ("clocks.max.video", "clocks.video.max", cells.hertz),
    ("pcie.link.gen.current", "pcie.generation", cells.count),
    ("pcie.link.gen.gpucurrent", "pcie.generation", cells.count),
    ("pcie.link.gen.max", "pcie.max_generation", cells.count),
    ("pcie.link.gen.gpumax", "pcie.max_generation", cells.count),
    ("pcie.link.width.current", "pcie.width", cells.lanes),
    ("pcie.link.width.max", "pcie.max_width", cells.lanes),
    *(
        (f"clocks_event_reasons.{reason}", f"throttles.{reason}", cells.flag)
        for reason in THROTTLE_BITS.values()
    ),
    *(
        (f"ecc.errors.{severity}.{span}.{name}", f"ecc.{severity}.{lasting}{block}", cells.count)
        for severity in ("corrected", "uncorrected")
        for span, lasting in (("volatile", "volatile"), ("aggregate", "lifetime"))
        for name, block in _ECC_COUNTS.items()
    ),
    ("retired_pages.single_bit_ecc.count", "retired_pages.corrected", cells.count),
    ("retired_pages.double_bit.count", "retired_pages.uncorrected", cells.count),
    ("remapped_rows.correctable", "remapped_rows.correctable", cells.count),
    ("remapped_rows.uncorrectable", "remapped_rows.uncorrectable", cells.count),
    ("remapped_rows.pending", "remapped_rows.pending", cells.flag),
    ("remapped_rows.failure", "remapped_rows.failed", cells.flag),
)

_ACTIVE, _SUPPORTED = "clocks_event_reasons.active", "clocks_event_reasons.supported"
_IDENTITY_FIELDS = ("index", "uuid", "serial", "pci.bus_id")
_RECOVERY_ACTION = "gpu_recovery_action"
_ALIASES: Mapping[str, str] = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "retired_pages.sbe": "retired_pages.single_bit_ecc.count",
    "retired_pages.dbe": "retired_pages.double_bit.count",
    **{
        f"{old}.{short}": f"{new}.{domain}"
        for old, new in (
            ("clocks", "clocks.current"),
            ("clocks.current", "clocks.current"),
            ("clocks.max", "clocks.max"),
        )
        for short, domain in (
            ("gr", "graphics"),
            ("graphics", "graphics"),
            ("sm", "sm"),
            ("mem", "memory"),
            ("memory", "memory"),
            ("video", "video"),
        )
    },
    # The name before driver 535.
    **{
        f"clocks_throttle_reasons.{reason}": f"clocks_event_reasons.{reason}"
        for reason in ("active", "supported", *THROTTLE_BITS.values())
    },
}
# Why a row may name no GPU, and what the output as a whole then says.
_ROW_ERRORS: Mapping[str, str] = {
    AbsenceReason.LOST: "device_lost",
    AbsenceReason.RESET_REQUIRED: "reset_required",
    AbsenceReason.DRIVER_ERROR: "driver_error",
    AbsenceReason.NO_PERMISSION: "no_permission",
    AbsenceReason.TIMEOUT: "timeout",
}
_LINE_LIMIT = 200
_KNOWN = frozenset(
    (*(field for field, _, _ in FIELDS), _ACTIVE, _SUPPORTED, _RECOVERY_ACTION, "timestamp", "count")
)


def parse_query_gpu(text: str, fields: Sequence[str] | None = None) -> Parsed:
    """Devices of the output. `fields` are the columns of an output without a header line, in their order;
    where there is a header, it says them itself."""
    columns = query_columns(fields or QUERY_GPU_FIELDS, _ALIASES)
    wanted = _wanted(columns)
    devices: dict[tuple[str, str | None, int | None, str | None], Device] = {}
    said = cells.MessageSet()
    rejected = Rejections()
    has_header = False
    refused: list[tuple[str, str]] = []  # rows of one marker, which says why they name no GPU
    rows = 0
    for line in text.lstrip("\ufeff").split("\n"):
        if not line.strip():
            continue
        found = parse_header(line, _KNOWN, _ALIASES, columns)
        if found is not None:
            columns, wanted = found, _wanted(found)
            if not has_header and not devices:
                rejected.clear()  # a banner before the output is not a part of it
            has_header = True
            continue
        message = cells.parse_message(line)
        if message is not None:
            said.add(message)
            continue
        row = columns.row(line, free_text="name")
        if row is None:
            rejected.add(line, "not_a_row")
            continue
        draft = _draft(row, wanted)
        refusal = _refusal(draft, row, commas_within=line.count(",") > columns.commas)
        if refusal is not None:
            rejected.add(line, refusal)
            if refusal in _ROW_ERRORS and not refused:
                refused.append((line.strip(), refusal))
            continue
        rejected.extend(draft.rejected)
        rows += 1
        draft.row = rows
        device = draft.device()
        # A tool that loops prints a GPU again and again: the last reading stands. Nothing but the whole
        # identity tells, since a mask may not be known as one.
        devices[device.id, device.pci_address, device.index, device.serial] = device
    error = None if devices else _no_rows(text, columns, has_header, next(iter(refused), None))
    for message in said:
        if error is None or error.text != message.text:
            rejected.add(message.text, message.reason)
    return Parsed(
        devices=cells.with_messages(with_distinct_ids(devices.values()), said),
        error=error,
        rejected=rejected.listed(),
    )


def _wanted(columns: Columns) -> tuple[Field, ...]:
    """Those of the fields that are columns here, in the order of preference."""
    return tuple(field for field in FIELDS if field[0] in columns.names)


def _draft(row: Mapping[str, str], wanted: Sequence[Field]) -> NvidiaDraft:
    draft = NvidiaDraft()
    for name, place, read in wanted:
        draft.take(place, row[name], read, name)
    draft.take_throttle_masks(row.get(_ACTIVE), row.get(_SUPPORTED))
    draft.take_recovery_action(row.get(_RECOVERY_ACTION, ""))
    return draft


def _refusal(draft: NvidiaDraft, row: Mapping[str, str], *, commas_within: bool) -> str | None:
    """Why a line with the right number of cells is still not a row, or None if it is one."""
    if commas_within and draft.rejected:
        return "not_a_row"  # the commas were not within the name after all
    if any(field in row for field in _IDENTITY_FIELDS):
        return None if draft.is_identified else draft.unidentified_reason
    # Nothing was asked that tells devices apart: then every cell must be a value or a marker, not all blank.
    blank = not draft.values and set(draft.absences.values()) <= {AbsenceReason.NO_SAMPLE}
    return "not_a_row" if blank or draft.rejected else None


def _no_rows(text: str, columns: Columns, has_header: bool, refused: tuple[str, str] | None) -> ParseError:
    error = cells.missing_reading(text, QUERY_GPU)
    if has_header:
        if error.reason != "unrecognized":
            return error
        return ParseError("truncated", f"{QUERY_GPU} printed a header line and no row that can be read")
    mismatch = columns.mismatch(text)
    if mismatch is not None and error.reason != "unrecognized":
        # The rows are there: that their columns are not known is what has to be mended first.
        return replace(mismatch, text=f"{mismatch.text}; the tool also says: {error.text}")
    if refused is not None and error.reason == "unrecognized":
        line, refusal = refused
        return ParseError(_ROW_ERRORS[refusal], f"no row says which GPU it is about: {line[:_LINE_LIMIT]}")
    return mismatch or error


# --- parse compute apps ------------------------------------------------------------
# `nvidia-smi --query-compute-apps=… --format=csv[,noheader][,nounits]`: one row per process and GPU.


COMPUTE_APPS = "nvidia-smi --query-compute-apps"
COMPUTE_APPS_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")

_PARSE_COMPUTE_APPS_ALIASES: Mapping[str, str] = {"used_gpu_memory": "used_memory", "name": "process_name"}
_PARSE_COMPUTE_APPS_KNOWN = frozenset((*COMPUTE_APPS_FIELDS, "gpu_bus_id", "gpu_serial"))
_NOTHING_RUNS = "no running processes found"


def parse_compute_apps(text: str, fields: Sequence[str] | None = None) -> Parsed:
    """Compute processes, each with the id of its device. `fields` are the columns of an output without a
    header line; where there is a header, it says them itself."""
    columns = query_columns(fields or COMPUTE_APPS_FIELDS, _PARSE_COMPUTE_APPS_ALIASES)
    processes: list[Process] = []
    rejected = Rejections()
    error: ParseError | None = None
    understood = False
    for line in text.lstrip("\ufeff").split("\n"):
        if not line.strip():
            continue
        found = parse_header(line, _PARSE_COMPUTE_APPS_KNOWN, _PARSE_COMPUTE_APPS_ALIASES, columns)
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
        message = cells.parse_message(line)
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
            rejected.add(line, _refusal_parse_compute_apps(row))
        else:
            understood = True
            processes.append(process)
    if not understood:
        return Parsed(error=_no_rows_parse_compute_apps(text, columns, error), rejected=rejected.listed())
    return Parsed(processes=tuple(processes), rejected=rejected.listed())


def _is_of_running_processes(columns: Columns) -> bool:
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


def _refusal_parse_compute_apps(row: Mapping[str, str] | None) -> str:
    """Why a line is not a process: some drivers print a marker where the pid should be."""
    reason = cells.absence(row.get("pid", "")) if row else None
    return reason.value if reason is not None else "not_a_row"


def _no_rows_parse_compute_apps(text: str, columns: Columns, told: ParseError | None) -> ParseError:
    """`told` is the tool's first message. Rows of other columns than were named come before it: without their
    names nothing of them can be read."""
    mismatch = columns.mismatch(text)
    if mismatch is None:
        return told or cells.missing_reading(text, COMPUTE_APPS)
    return replace(mismatch, text=f"{mismatch.text}; the tool also says: {told.text}") if told else mismatch
