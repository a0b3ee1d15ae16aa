"""The commands of npu-smi besides `npu-smi info`: `npu-smi info -t SUBJECT -i N`, and the lists `-l` and
`-m`.

Each subject has a list of keys, and a function for values that are made from several keys.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from accelscope.model import (
    Absence,
    AbsenceReason,
    Clock,
    Device,
    EccCount,
    ErrorCount,
    Health,
    Process,
    ProcessType,
    Rail,
)
from accelscope.parsing import ParseResult, Rejections
from accelscope.vendors.ascend import key_values, quantities
from accelscope.vendors.ascend.draft import AscendDraft, die_id, health_of
from accelscope.vendors.ascend.key_values import CONTROLLERS, Block, blocks_of, chips_of, first_of, key_value
from accelscope.vendors.common.values import identifier, program_name, unrecognized_output

# Common to the parsers of `npu-smi info -t …`: a block of values becomes a chip.

_MOST_CHIPS = 4096
_NVIDIA_LOG = "NVSMI LOG"
_LOG_BEGINS_WITHIN = 1000  # characters

# Place in the draft, how to read the value, and its keys in the versions of the tool.
Field = tuple[str, quantities.Read, tuple[str, ...]]


def parse_chips(
    text: str,
    tool: str,
    fields: Sequence[Field],
    take_more: Callable[[AscendDraft, Block], None] = lambda _draft, _block: None,
) -> ParseResult:
    """`take_more` adds values that are made from several keys. A block without known keys is ignored."""
    if _NVIDIA_LOG in text[:_LOG_BEGINS_WITHIN]:  # `nvidia-smi -q` has keys of the same names
        return ParseResult(error=unrecognized_output(text, tool))
    rejected = Rejections()
    drafts: list[AscendDraft] = []
    for block in chips_of(text):
        draft = AscendDraft(board=block.board, chip=block.chip)
        for place, read, keys in fields:
            draft.take(place, first_of(block.values, *keys), read, keys[0])
        take_more(draft, block)
        if not draft.values and not draft.absences:
            continue
        if len(drafts) >= _MOST_CHIPS:
            rejected.add(f"NPU {block.board} chip {block.chip}", "too_many")
            continue
        drafts.append(draft)
        rejected.extend(draft.rejected)
    if not drafts:
        return ParseResult(error=key_values.no_values_error(text, tool), rejected=rejected.listed())
    for message in key_values.messages_in(text):
        rejected.add(message.text, message.reason)
    return ParseResult(devices=tuple(draft.device() for draft in drafts), rejected=rejected.listed())


# `npu-smi info -t board -i N [-c N]`: identity of a board, or with `-c` of one of its chips.

_BOARD = "npu-smi info -t board"

_BOARD_FIELDS: tuple[Field, ...] = (
    ("uuid", die_id, ("vdie id", "ddie id", "die id")),
    ("serial", identifier, ("serial number",)),
    ("pci_address", quantities.address, ("pcie bus info",)),
    ("model", quantities.words, ("chip name", "product name")),
    ("pci_device_id", quantities.pci_device_id, ("pci device id",)),
    ("chip_count", quantities.count, ("chip count",)),
    ("driver_version", quantities.words, ("software version",)),
    ("firmware_version", quantities.words, ("firmware version",)),
)


def parse_board(text: str) -> ParseResult:
    return parse_chips(text, _BOARD, _BOARD_FIELDS)


# `npu-smi info -t usages -i N`: utilization of the units of a chip.

_USAGES = "npu-smi info -t usages"

_AICORE, _OVERALL = "aicore usage rate(%)", "npu utilization(%)"
_USAGES_FIELDS: tuple[Field, ...] = (
    ("utilization_ratio", quantities.ratio, (_AICORE, _OVERALL)),
    ("vector_utilization_ratio", quantities.ratio, ("aivector usage rate(%)", "vectorcore usage rate(%)")),
    ("control_cpu_utilization_ratio", quantities.ratio, ("ctrlcpu usage rate(%)",)),
    ("tensor_active_ratio", quantities.ratio, ("aicube usage rate(%)",)),  # the unit that multiplies matrices
    ("decoder_utilization_ratio", quantities.ratio, ("dvpp vdec usage rate(%)",)),
    ("encoder_utilization_ratio", quantities.ratio, ("dvpp venc usage rate(%)",)),
    ("jpeg_utilization_ratio", quantities.ratio, ("dvpp jpegd usage rate(%)",)),
)
# Kinds of memory, that of the AI cores first.
_MEMORIES = ("hbm", "ddr", "memory")


def parse_usages(text: str) -> ParseResult:
    return parse_chips(text, _USAGES, _USAGES_FIELDS, _take_usages)


def _take_usages(draft: AscendDraft, block: Block) -> None:
    if _AICORE in block.values:  # else it is `utilization_ratio`
        draft.take("overall_utilization_ratio", block.values.get(_OVERALL), quantities.ratio, _OVERALL)
    _take_memory_use(draft, block)


def _take_memory_use(draft: AscendDraft, block: Block) -> None:
    """Used memory is computed from the capacity and a whole percentage, so it is precise to half a percent of
    the capacity. Some outputs have percentages but no capacity."""
    capacities = {kind: block.values.get(_capacity(kind)) for kind in _MEMORIES}
    with_capacity = [kind for kind, capacity in capacities.items() if capacity is not None]
    absent = {kind for kind in with_capacity if quantities.count(capacities[kind] or "") == 0}
    with_rates = [kind for kind in _MEMORIES if {_fill(kind), _bandwidth(kind)} & block.values.keys()]
    kind = next((kind for kind in (*with_capacity, *with_rates) if kind not in absent), None)
    if kind is None:
        if with_capacity:
            draft.absences["memory_total_bytes"] = AbsenceReason.NOT_SUPPORTED
        return
    draft.take("memory_total_bytes", capacities[kind], quantities.memory, _capacity(kind))
    draft.take("memory_used_ratio", block.values.get(_fill(kind)), quantities.fill, _fill(kind))
    total, ratio = draft.values.get("memory_total_bytes"), draft.values.get("memory_used_ratio")
    if total is not None and ratio is not None:
        draft.values["memory_used_bytes"] = round(total * ratio)
    draft.take(
        "memory_utilization_ratio", block.values.get(_bandwidth(kind)), quantities.ratio, _bandwidth(kind)
    )


def _capacity(kind: str) -> str:
    return f"{kind} capacity(mb)"


def _fill(kind: str) -> str:
    return f"{kind} usage rate(%)"


def _bandwidth(kind: str) -> str:
    return f"{kind} bandwidth usage rate(%)"


# `npu-smi info -t common -i N`: utilization, clock, temperature and power of the chips of a board.

_COMMON = "npu-smi info -t common"

_POWER = "npu real-time power(w)"
_COMMON_FIELDS: tuple[Field, ...] = (
    ("utilization_ratio", quantities.ratio, ("aicore usage rate(%)",)),
    # If the chip has HBM, `memory` is the DDR memory of its own CPUs.
    ("memory_used_ratio", quantities.fill, ("hbm usage rate(%)", "memory usage rate(%)")),
    ("temperature_celsius", quantities.celsius, ("temperature(c)",)),
)


def parse_common(text: str) -> ParseResult:
    parsed = parse_chips(text, _COMMON, _COMMON_FIELDS, _take_power_and_clock)
    measured: set[int | None] = set()
    devices: list[Device] = []
    for device in parsed.devices:
        if device.power_watts is not None and device.board_id in measured:
            shared = Absence("power_watts", AbsenceReason.SHARED)  # each chip shows the power of the NPU
            devices.append(replace(device, power_watts=None, absent=(*device.absent, shared)))
            continue
        if device.power_watts is not None:
            measured.add(device.board_id)
        devices.append(device)
    return replace(parsed, devices=tuple(devices))


def board_power_watts(text: str) -> float | None:
    """The power of the whole card, as the board's controller measures it. 310P chips do not measure their
    own."""
    for block in blocks_of(text):
        if block.of_controller:
            power = quantities.watts(block.values.get(_POWER, ""))
            if power:
                return power
    return None


def _take_power_and_clock(draft: AscendDraft, block: Block) -> None:
    draft.take_power(block.values.get(_POWER), _POWER)
    now = quantities.hertz(block.values.get("aicore curfreq(mhz)", ""))
    rated = quantities.hertz(block.values.get("aicore freq(mhz)", ""))
    if now is not None or rated is not None:
        draft.values["clocks"] = (Clock("aicore", hertz=now, max_hertz=rated),)


# `npu-smi info -t memory -i N`: clock and temperature of a chip's memory.

_MEMORY = "npu-smi info -t memory"


def parse_memory(text: str) -> ParseResult:
    return parse_chips(text, _MEMORY, (), _take_memory_clock)


def _take_memory_clock(draft: AscendDraft, block: Block) -> None:
    """Chips with HBM print a clock of 0 for DDR memory, which they do not have."""
    speed = first_of(block.values, "hbm clock speed(mhz)", "ddr clock speed(mhz)", "clock speed(mhz)")
    hertz = quantities.hertz(speed or "")
    if hertz:
        draft.values["clocks"] = (Clock("memory", hertz=hertz),)
    celsius = quantities.celsius(block.values.get("hbm temperature(c)", ""))
    if celsius is not None:
        draft.put("sensors.hbm", celsius)


# `npu-smi info -t volt -i N`: the voltage of a chip.

_VOLT = "npu-smi info -t volt"


def parse_volt(text: str) -> ParseResult:
    return parse_chips(text, _VOLT, (), _take_voltage)


def _take_voltage(draft: AscendDraft, block: Block) -> None:
    volts = quantities.volts(block.values.get("voltage(v)", ""))
    if volts:
        draft.values["rails"] = (Rail("npu", volts=volts),)


# `npu-smi info -t ecc -i N`: memory errors of a chip, by kind of memory.

_ECC = "npu-smi info -t ecc"

# `HBM Double Bit Aggregate Total Err Cnt`, `Single-bit Error Count`, `DDR Single Bit Isolated Pages Count`.
_ECC_KEY = re.compile(
    r"(?:(?P<block>hbm|ddr) )?(?P<bits>single|double)[ -]bit "
    r"(?P<what>error count|aggregate total err cnt|isolated pages count)"
)
_SEVERITY = {"single": "corrected", "double": "uncorrected"}  # ECC corrects one wrong bit in a word, not two


def parse_ecc(text: str) -> ParseResult:
    return parse_chips(text, _ECC, (), _take_counts)


def _take_counts(draft: AscendDraft, block: Block) -> None:
    """Counts of each kind of memory, and their totals for the chip."""
    parts: list[EccCount] = []
    totals: Counter[tuple[str, bool]] = Counter()
    pages: Counter[str] = Counter()
    for key, text in block.values.items():
        match = _ECC_KEY.fullmatch(key)
        if match is None:
            continue
        count = quantities.count(text)
        if count is None:
            draft.absences["ecc"] = quantities.absence(text) or AbsenceReason.UNREADABLE
            if quantities.absence(text) is None:
                draft.reject(key, text)
            continue
        severity = _SEVERITY[match["bits"]]
        if match["what"] == "isolated pages count":
            pages[severity] += count
            continue
        lifetime = match["what"] != "error count"
        totals[severity, lifetime] += count
        if match["block"]:
            parts.append(EccCount(severity, lifetime=lifetime, count=count, block=match["block"]))
    sums = tuple(EccCount(severity, lifetime=lifetime, count=n) for (severity, lifetime), n in totals.items())
    if sums:
        draft.values["ecc"] = (*sums, *parts)
    if pages:
        draft.values["retired_pages"] = tuple(EccCount(s, lifetime=True, count=n) for s, n in pages.items())


# `npu-smi info -t health -i N -c N`: the health of a chip, with the codes of its current errors.

_HEALTH = "npu-smi info -t health"
ERROR_KIND = "npu"

_CODE = re.compile(r"(?:0x)?([0-9a-f]{4,16})", re.IGNORECASE)
_MOST_CODES = 256
_INFORMATION_LIMIT = 300


def parse_health(text: str) -> ParseResult:
    return parse_chips(text, _HEALTH, (), _take_health)


def _take_health(draft: AscendDraft, block: Block) -> None:
    word = first_of(block.values, "health status", "health")
    codes = block.values.get("error code", "")
    if word is None and not codes:
        return
    draft.values["health"] = health_of(word or "", _information(block))
    if quantities.absence(codes) is not None:
        return
    found: dict[str, None] = {}
    for text in codes.split()[:_MOST_CODES]:
        code = _CODE.fullmatch(text)
        if code is None:
            draft.reject("error code", text)
        else:
            found[code[1].upper()] = None
    draft.values["errors"] = tuple(ErrorCount(ERROR_KIND, code, 1) for code in found)
    health: Health = draft.values["health"]
    if found and health.cause is not None:
        # Imported here because only an unhealthy chip needs the table of codes.
        from accelscope.vendors.ascend.error_codes import error_code  # noqa: PLC0415
        from accelscope.vendors.common.health import explained  # noqa: PLC0415

        entries = (entry for entry in map(error_code, found) if entry is not None)
        draft.values["health"] = explained(health, ERROR_KIND, entries)


def _information(block: Block) -> str | None:
    """The driver's text for the error codes. For further codes it is on lines that start with a colon."""
    first = block.values.get("error information", "")
    more = [line[1:].strip() for line in block.others if line.startswith(":")]
    texts = [text for text in (first, *more) if quantities.absence(text) is None]
    return "; ".join(texts)[:_INFORMATION_LIMIT] or None


# `npu-smi info -l`: all NPUs of the driver, including those that are not in the table.

_LIST = "npu-smi info -l"

_MOST_BOARDS = 4096


def parse_list(text: str) -> ParseResult:
    """Only checks whether this is such a list: it has too little for a Device."""
    return ParseResult(error=None if boards_in(text) else key_values.no_values_error(text, _LIST))


def boards_in(text: str) -> dict[int, int]:
    """The number of chips of each NPU. An NPU without chip numbers counts as one chip."""
    boards: dict[int, int] = {}
    board: int | None = None
    for line in text.lstrip("\ufeff").split("\n"):
        key, value = key_value(line) or ("", "")
        if key == "npu id":
            board = quantities.count(value)
            if board is not None and len(boards) < _MOST_BOARDS:
                boards[board] = 1
        elif key == "chip count" and board in boards:
            chips = quantities.count(value)
            boards[board] = 1 if chips is None else chips
    return boards


# `npu-smi info -m`: the numbers of each chip in the runtime and in `/dev`.

_MAP = "npu-smi info -m"

_LINE_LIMIT = 1000
_COLUMN = re.compile(r"npu id|slot id|chip id|chip logic id|chip phy-id|chip name|\S+", re.IGNORECASE)


def parse_map(text: str) -> ParseResult:
    columns: tuple[str, ...] = ()
    devices: list[Device] = []
    rejected = Rejections()
    for line in text.lstrip("\ufeff").split("\n"):
        bare = line.strip()
        if not bare or len(bare) > _LINE_LIMIT:
            continue
        names = _columns(bare)
        if "npu id" in names:
            columns = names
        elif columns:
            draft = _chip(bare, columns, rejected)
            if draft is not None and len(devices) < _MOST_CHIPS:
                devices.append(draft.device())
                rejected.extend(draft.rejected)
    if not devices:
        return ParseResult(error=key_values.no_values_error(text, _MAP), rejected=rejected.listed())
    return ParseResult(devices=tuple(devices), rejected=rejected.listed())


def _columns(line: str) -> tuple[str, ...]:
    """Names of columns contain single blanks."""
    if not line.casefold().startswith("npu id"):
        return ()
    return tuple(" ".join(match[0].casefold().split()) for match in _COLUMN.finditer(line))


def _chip(line: str, columns: tuple[str, ...], rejected: Rejections) -> AscendDraft | None:
    """The name comes last and may contain blanks."""
    words = line.split(None, len(columns) - 1)
    if len(words) != len(columns):
        message = key_values.message_of(line)
        rejected.add(line, message.reason if message else "not_a_row")
        return None
    values = dict(zip(columns, words, strict=True))
    board, chip = quantities.count(values["npu id"]), quantities.count(values.get("chip id", ""))
    if board is None or ("chip id" in values and chip is None):
        rejected.add(line, "not_a_row")
        return None
    name = values.get("chip name", "")
    if name.strip().casefold() in CONTROLLERS or values.get("chip logic id") == "-":
        return None
    draft = AscendDraft(board=board, chip=chip)
    draft.take("index", values.get("chip logic id"), quantities.count, "Chip Logic ID")
    draft.take("physical_id", values.get("chip phy-id"), quantities.count, "Chip Phy-ID")
    draft.take("model", name or None, quantities.words, "Chip Name")
    return draft


# `npu-smi info -t proc-mem -i N`: the processes on each chip of a board, with their memory.

_PROC_MEM = "npu-smi info -t proc-mem"

_PROCESS = re.compile(
    r"Process id\s*:\s*([0-9]{1,18})\s+Process name\s*:(.{0,300}?)\s*"
    r"Process memory\s*\(MB\)\s*:\s*(\S{0,40})",
    re.IGNORECASE | re.ASCII,
)
_NAME = re.compile(r"\s*Process name\b", re.IGNORECASE)
_NONE = "no process in device"
_MOST_PROCESSES = 100_000


def parse_proc_mem(text: str) -> ParseResult:
    """A chip without processes is listed too."""
    devices: list[Device] = []
    processes: list[Process] = []
    rejected = Rejections()
    for block in blocks_of(text):
        found = [line for line in block.others if line[:40].casefold().startswith((_NONE, "process id"))]
        for line in block.others:
            message = key_values.message_of(line)
            if message is not None:
                rejected.add(message.text, message.reason)
        if not found or block.of_controller:
            continue
        is_named = block.board is not None or block.chip is not None
        device = AscendDraft(board=block.board, chip=block.chip).device() if is_named else None
        if device is not None:
            devices.append(device)
        for line in found:
            process = _process(line, device)
            if process is not None and len(processes) < _MOST_PROCESSES:
                processes.append(process)
            elif not line.casefold().startswith(_NONE):
                rejected.add(_without_name(line), "not_a_row" if process is None else "too_many")
    if not devices and not processes and not _has_no_processes(text):
        return ParseResult(error=key_values.no_values_error(text, _PROC_MEM), rejected=rejected.listed())
    return ParseResult(devices=tuple(devices), processes=tuple(processes), rejected=rejected.listed())


def _without_name(line: str) -> str:
    """What follows the pid may be a command line with secrets, so it is left out."""
    return _NAME.split(line, 1)[0]


def _has_no_processes(text: str) -> bool:
    return any(line.strip().casefold().startswith(_NONE) for line in text.split("\n"))


def _process(line: str, device: Device | None) -> Process | None:
    match = _PROCESS.match(line)
    if match is None or not int(match[1]):
        return None
    return Process(
        pid=int(match[1]),
        device=device.id if device else None,
        name=program_name(match[2], quantities.absence),
        type=ProcessType.COMPUTE,
        memory_bytes=quantities.memory(match[3]),
    )
