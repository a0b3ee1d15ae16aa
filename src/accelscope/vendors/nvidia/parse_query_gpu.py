"""`nvidia-smi --query-gpu=… --format=csv[,noheader][,nounits]`: one row per GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from accelscope.model import AbsenceReason, Device, pci_address
from accelscope.parsing.parsed import Parsed, ParseError
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.nvidia import cells, csv_rows, messages
from accelscope.vendors.nvidia.draft import NvidiaDraft
from accelscope.vendors.nvidia.gpu import THROTTLE_BITS, with_ids_of_their_own

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
Field = tuple[str, str, cells.Read]
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
    columns = csv_rows.asked(fields or QUERY_GPU_FIELDS, _ALIASES)
    wanted = _wanted(columns)
    devices: dict[tuple[str, str | None, int | None, str | None], Device] = {}
    said = messages.Said()
    rejected = Rejections()
    has_header = False
    refused: list[tuple[str, str]] = []  # rows of one marker, which says why they name no GPU
    rows = 0
    for line in text.lstrip("\ufeff").split("\n"):
        if not line.strip():
            continue
        found = csv_rows.header(line, _KNOWN, _ALIASES, columns)
        if found is not None:
            columns, wanted = found, _wanted(found)
            if not has_header and not devices:
                rejected.clear()  # a banner before the output is not a part of it
            has_header = True
            continue
        message = messages.message_of(line)
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
        devices=messages.with_unreachable(with_ids_of_their_own(devices.values()), said),
        error=error,
        rejected=rejected.listed(),
    )


def _wanted(columns: csv_rows.Columns) -> tuple[Field, ...]:
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
        return None if draft.identified else draft.unidentified_because
    # Nothing was asked that tells devices apart: then every cell must be a value or a marker, not all blank.
    blank = not draft.values and set(draft.absences.values()) <= {AbsenceReason.NO_SAMPLE}
    return "not_a_row" if blank or draft.rejected else None


def _no_rows(
    text: str, columns: csv_rows.Columns, has_header: bool, refused: tuple[str, str] | None
) -> ParseError:
    error = messages.no_reading(text, QUERY_GPU)
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
