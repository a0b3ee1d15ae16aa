"""`nvidia-smi --query-gpu=…` and `--query-compute-apps=…` with `--format=csv[,noheader][,nounits]`.

The tool does not quote cells. A header cell is the canonical name of a field, followed by its unit in
brackets. Without a header, the columns are the queried fields in their order.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from accelscope.model import AbsenceReason, Device, Process, ProcessType, pci_address
from accelscope.parsing import ParseError, ParseResult, Rejections
from accelscope.vendors.common.values import identifier, words
from accelscope.vendors.nvidia import cells
from accelscope.vendors.nvidia.cells import absence, is_number, parse_message, program_name
from accelscope.vendors.nvidia.gpu import THROTTLE_BITS, NvidiaDraft, gpu_id, with_distinct_ids

_NAME = re.compile(r"([a-z][a-z0-9_]*(?:\.[a-z0-9_]+)*)(?:\s*\[([^\[\]\s]{1,8})\])?", re.ASCII)
_MAX_EXTRA_COMMAS = 8  # in a name; a line with more is not a row


@dataclass(frozen=True, slots=True)
class Columns:
    names: tuple[str, ...]  # canonical, lower case
    units: tuple[str, ...]  # as in the header; empty without a unit

    def row(self, line: str, free_text: str) -> dict[str, str] | None:
        """Cells by column, or None if their number does not match.

        Extra commas are assumed to be part of the `free_text` column, unless that column would then contain a
        value: a row with more columns than expected must not be read shifted.
        """
        cells = [cell.strip() for cell in line.split(",")]
        extra = len(cells) - len(self.names)
        if extra and (not 0 < extra <= _MAX_EXTRA_COMMAS or free_text not in self.names):
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
        """The error of an output whose rows all have another number of columns."""
        counts = {
            line.count(",") + 1 for line in text.split("\n") if "," in line and parse_message(line) is None
        }
        if not counts or len(self.names) in counts:
            return None
        return ParseError(
            "column_mismatch",
            f"rows of {max(counts)} columns, expected {len(self.names)} ({','.join(self.names)}): "
            "name the columns that were queried",
        )


def query_columns(names: Iterable[str], aliases: Mapping[str, str]) -> Columns:
    """Columns of an output without a header."""
    bare = [name.partition("[")[0].strip().casefold() for name in names]  # a pasted header has units
    return Columns(tuple(aliases.get(name, name) for name in bare), ("",) * len(bare))


def parse_header(
    line: str, known: frozenset[str], aliases: Mapping[str, str], expected: Columns
) -> Columns | None:
    """Columns of a header line; None if the line is not one.

    Unknown fields are allowed, because every driver version adds some. In a damaged line at least half of the
    names must be known; the damaged ones are taken from `expected`.
    """
    if not line.lstrip()[:1].isalpha():
        return None
    cells = line.casefold().split(",")
    same_count = len(cells) == len(expected.names)
    names, units, readable, recognised = [], [], 0, 0
    for position, cell in enumerate(cells):
        match = _NAME.fullmatch(cell.strip())
        if match is None:
            if 2 * (position + 1 - readable) > len(cells):
                return None
            names.append(expected.names[position] if same_count else "")
            units.append("")
            continue
        readable += 1
        name = aliases.get(match[1], match[1])
        recognised += name in known
        names.append(name)
        units.append(match[2] or "")
    enough = recognised if readable == len(cells) else 2 * recognised >= len(cells)
    return Columns(tuple(names), tuple(units)) if enough else None


# --query-gpu: one row per GPU

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
    # Two names for the same location.
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

# Name of the column, place in the model, and function that reads the cell. If several columns have the same
# place, the first with a value is used: power.draw, an average on recent boards, is what people compare with.
Field = tuple[str, str, cells.CellReader]
FIELDS: tuple[Field, ...] = (
    ("index", "index", cells.count),
    ("uuid", "uuid", cells.uuid),
    ("serial", "serial", identifier),
    ("pci.bus_id", "pci_address", pci_address),
    ("name", "model", words),
    ("driver_version", "driver_version", words),
    ("kmd_version", "driver_version", words),
    ("vbios_version", "firmware_version", words),
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
# Error of an output whose rows do not identify a GPU, by the marker in the rows.
_ROW_ERRORS: Mapping[str, str] = {
    AbsenceReason.LOST: "device_lost",
    AbsenceReason.RESET_REQUIRED: "reset_required",
    AbsenceReason.DRIVER_ERROR: "driver_error",
    AbsenceReason.NO_PERMISSION: "no_permission",
    AbsenceReason.TIMEOUT: "timeout",
}
_LINE_LIMIT = 200
_KNOWN_FIELDS = frozenset(
    (*(field for field, _, _ in FIELDS), _ACTIVE, _SUPPORTED, _RECOVERY_ACTION, "timestamp", "count")
)


def parse_query_gpu(text: str, fields: Sequence[str] | None = None) -> ParseResult:
    """Devices of the output. `fields` are the columns of an output without a header line."""
    columns = query_columns(fields or QUERY_GPU_FIELDS, _ALIASES)
    wanted = _wanted(columns)
    devices: dict[tuple[str, str | None, int | None, str | None], Device] = {}
    messages = cells.MessageSet()
    rejected = Rejections()
    has_header = False
    failed_row: tuple[str, str] | None = None  # the first row of markers, and its reason
    rows = 0
    for line in text.lstrip("\ufeff").split("\n"):
        if not line.strip():
            continue
        header = parse_header(line, _KNOWN_FIELDS, _ALIASES, columns)
        if header is not None:
            columns, wanted = header, _wanted(header)
            if not has_header and not devices:
                rejected.clear()  # a banner before the header is not part of the output
            has_header = True
            continue
        message = cells.parse_message(line)
        if message is not None:
            messages.add(message)
            continue
        row = columns.row(line, free_text="name")
        if row is None:
            rejected.add(line, "not_a_row")
            continue
        draft = _draft(row, wanted)
        reason = _rejection(draft, row, extra_commas=line.count(",") > columns.commas)
        if reason is not None:
            rejected.add(line, reason)
            if reason in _ROW_ERRORS and failed_row is None:
                failed_row = (line.strip(), reason)
            continue
        rejected.extend(draft.rejected)
        rows += 1
        draft.row = rows
        device = draft.device()
        # With --loop the tool prints every GPU repeatedly: the last row is used. The whole identity is the
        # key, because the uuid may be a mask that was not recognised as one.
        devices[device.id, device.pci_address, device.index, device.serial] = device
    error = None if devices else _missing_rows(text, columns, has_header, failed_row)
    for message in messages:
        if error is None or error.text != message.text:
            rejected.add(message.text, message.reason)
    return ParseResult(
        devices=cells.with_messages(with_distinct_ids(devices.values()), messages),
        error=error,
        rejected=rejected.listed(),
    )


def _wanted(columns: Columns) -> tuple[Field, ...]:
    """The fields that are columns here, in order of preference."""
    return tuple(field for field in FIELDS if field[0] in columns.names)


def _draft(row: Mapping[str, str], wanted: Sequence[Field]) -> NvidiaDraft:
    draft = NvidiaDraft()
    for name, place, read in wanted:
        draft.take(place, row[name], read, name)
    draft.take_throttle_masks(row.get(_ACTIVE), row.get(_SUPPORTED))
    draft.take_recovery_action(row.get(_RECOVERY_ACTION, ""))
    return draft


def _rejection(draft: NvidiaDraft, row: Mapping[str, str], *, extra_commas: bool) -> str | None:
    """Why a line with the right number of cells is not a row, or None if it is one."""
    if extra_commas and draft.rejected:
        return "not_a_row"  # the extra commas were not part of the name
    if any(field in row for field in _IDENTITY_FIELDS):
        return None if draft.is_identified else draft.unidentified_reason
    # Without an identity column every cell must be a value or a marker, and not all may be blank.
    blank = not draft.values and set(draft.absences.values()) <= {AbsenceReason.NO_SAMPLE}
    return "not_a_row" if blank or draft.rejected else None


def _missing_rows(
    text: str, columns: Columns, has_header: bool, failed_row: tuple[str, str] | None
) -> ParseError:
    error = cells.missing_reading(text, QUERY_GPU)
    if has_header:
        if error.reason != "unrecognized":
            return error
        return ParseError("truncated", f"{QUERY_GPU} printed a header and no readable row")
    mismatch = columns.mismatch(text)
    if mismatch is not None and error.reason != "unrecognized":
        # There are rows, but their columns are unknown. That has to be fixed first.
        return replace(mismatch, text=f"{mismatch.text}; the tool also printed: {error.text}")
    if failed_row is not None and error.reason == "unrecognized":
        line, reason = failed_row
        return ParseError(_ROW_ERRORS[reason], f"no row identifies a GPU: {line[:_LINE_LIMIT]}")
    return mismatch or error


# --query-compute-apps: one row per process and GPU

COMPUTE_APPS = "nvidia-smi --query-compute-apps"
COMPUTE_APPS_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")

_APP_ALIASES: Mapping[str, str] = {"used_gpu_memory": "used_memory", "name": "process_name"}
_KNOWN_APP_FIELDS = frozenset((*COMPUTE_APPS_FIELDS, "gpu_bus_id", "gpu_serial"))
_NO_PROCESSES = "no running processes found"


def parse_compute_apps(text: str, fields: Sequence[str] | None = None) -> ParseResult:
    """Compute processes, each with the id of its device. `fields` are the columns of an output without a
    header line."""
    columns = query_columns(fields or COMPUTE_APPS_FIELDS, _APP_ALIASES)
    processes: list[Process] = []
    rejected = Rejections()
    error: ParseError | None = None
    recognised = False
    for line in text.lstrip("\ufeff").split("\n"):
        if not line.strip():
            continue
        header = parse_header(line, _KNOWN_APP_FIELDS, _APP_ALIASES, columns)
        if header is not None and not _lists_running_processes(header):
            return ParseResult(
                error=ParseError(
                    "unrecognized", f"not the header of {COMPUTE_APPS}: {line.strip()[:_LINE_LIMIT]}"
                )
            )
        if header is not None or line.strip().casefold().startswith(_NO_PROCESSES):
            columns = header or columns
            if not recognised:
                rejected.clear()  # a banner before the header is not part of the output
            recognised = True
            continue
        message = cells.parse_message(line)
        if message is not None:
            if error is None and not message.warning:
                error = ParseError(message.reason, message.text)
            rejected.add(message.text, message.reason)
            continue
        row = columns.row(line, free_text="process_name")
        if row is not None and line.count(",") > columns.commas and _memory_unreadable(row):
            row = None  # the extra commas were not part of the name
        process = None if row is None else _process(row, rejected)
        if process is None:
            rejected.add(line, _app_rejection(row))
        else:
            recognised = True
            processes.append(process)
    if not recognised:
        return ParseResult(error=_missing_apps(text, columns, error), rejected=rejected.listed())
    return ParseResult(processes=tuple(processes), rejected=rejected.listed())


def _lists_running_processes(columns: Columns) -> bool:
    """False for the list of finished processes (accounted apps), which also has a pid column."""
    return "pid" in columns.names and "max_memory_usage" not in columns.names


def _process(row: Mapping[str, str], rejected: Rejections) -> Process | None:
    pid = cells.count(row.get("pid", ""))
    if not pid:
        return None
    if _memory_unreadable(row):
        rejected.add(f"used_memory: {row['used_memory']}", "unreadable")
    uuid = cells.uuid(row.get("gpu_uuid", ""))
    serial_cell = row.get("gpu_serial", "")
    serial = None if cells.absence(serial_cell) else identifier(serial_cell)
    pci = pci_address(row.get("gpu_bus_id", ""))
    device, partition = None, None
    if uuid is not None and uuid.startswith("MIG-"):
        partition = _id_or_none(uuid=uuid)
    else:
        device = _id_or_none(uuid=uuid, serial=serial, pci=pci)
    return Process(
        pid=pid,
        device=device,
        partition=partition,
        name=program_name(row.get("process_name", "")),
        type=ProcessType.COMPUTE,
        memory_bytes=cells.memory(row.get("used_memory", "")),
    )


def _id_or_none(uuid: str | None, serial: str | None = None, pci: str | None = None) -> str | None:
    result = gpu_id(uuid=uuid, serial=serial, pci=pci)
    return None if result == gpu_id() else result


def _memory_unreadable(row: Mapping[str, str]) -> bool:
    cell = row.get("used_memory", "")
    return cells.memory(cell) is None and cells.absence(cell) is None


def _app_rejection(row: Mapping[str, str] | None) -> str:
    """Why a line is not a process. Some drivers print a marker instead of the pid."""
    reason = cells.absence(row.get("pid", "")) if row else None
    return reason.value if reason is not None else "not_a_row"


def _missing_apps(text: str, columns: Columns, message: ParseError | None) -> ParseError:
    """`message` is the first error message of the tool. A mismatch of columns takes precedence over it."""
    mismatch = columns.mismatch(text)
    if mismatch is None:
        return message or cells.missing_reading(text, COMPUTE_APPS)
    if message is None:
        return mismatch
    return replace(mismatch, text=f"{mismatch.text}; the tool also printed: {message.text}")
