"""What npu-smi prints as `key : value`, one command for each subject: `npu-smi info -t SUBJECT -i N`.

A block of values becomes a chip. Each subject has its keys, and a function for what is more than one value.
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
    Process,
    ProcessType,
    Rail,
)
from accelscope.parsing import Parsed, Rejections
from accelscope.vendors.ascend import key_values, quantities
from accelscope.vendors.ascend.draft import AscendDraft, die_id, health_of
from accelscope.vendors.ascend.key_values import CONTROLLERS, Block, blocks_of, chips_of, first_of, key_value
from accelscope.vendors.common.values import program_name, strange_output

# What the parsers of `npu-smi info -t …` have in common: a block of values becomes a chip.

_MOST_CHIPS = 4096
_NVIDIA_LOG = "NVSMI LOG"
_LOG_BEGINS_WITHIN = 1000  # characters

# A place in the model, how its value is read, and the keys under which versions of the tool print it.
Field = tuple[str, quantities.Read, tuple[str, ...]]


def parsed_chips(
    text: str,
    tool: str,
    fields: Sequence[Field],
    further: Callable[[AscendDraft, Block], None] = lambda _draft, _block: None,
) -> Parsed:
    """`further` takes what is more than one value. A block in which nothing is known is no chip."""
    if _NVIDIA_LOG in text[:_LOG_BEGINS_WITHIN]:  # `nvidia-smi -q` has keys of the same names
        return Parsed(error=strange_output(text, tool))
    rejected = Rejections()
    drafts: list[AscendDraft] = []
    for block in chips_of(text):
        draft = AscendDraft(board=block.board, chip=block.chip)
        for place, read, keys in fields:
            draft.take(place, first_of(block.values, *keys), read, keys[0])
        further(draft, block)
        if not draft.values and not draft.absences:
            continue
        if len(drafts) >= _MOST_CHIPS:
            rejected.add(f"NPU {block.board} chip {block.chip}", "too_many")
            continue
        drafts.append(draft)
        rejected.extend(draft.rejected)
    if not drafts:
        return Parsed(error=key_values.no_reading(text, tool), rejected=rejected.listed())
    for message in key_values.messages_in(text):
        rejected.add(message.text, message.reason)
    return Parsed(devices=tuple(draft.device() for draft in drafts), rejected=rejected.listed())


# `npu-smi info -t board -i N [-c N]`: who a board is, or with `-c` one chip of it.

_BOARD = "npu-smi info -t board"

_BOARD_FIELDS: tuple[Field, ...] = (
    ("uuid", die_id, ("vdie id", "ddie id", "die id")),
    ("serial", quantities.identifier, ("serial number",)),
    ("pci_address", quantities.address, ("pcie bus info",)),
    ("model", quantities.words, ("chip name", "product name")),
    ("pci_device_id", quantities.pci_device_id, ("pci device id",)),
    ("chip_count", quantities.count, ("chip count",)),
    ("driver_version", quantities.words, ("software version",)),
    ("firmware_version", quantities.words, ("firmware version",)),
)


def parse_board(text: str) -> Parsed:
    return parsed_chips(text, _BOARD, _BOARD_FIELDS)


# `npu-smi info -t usages -i N`: how busy the parts of a chip are.

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
# Memory by its kind, the accelerator's own first.
_MEMORIES = ("hbm", "ddr", "memory")


def parse_usages(text: str) -> Parsed:
    return parsed_chips(text, _USAGES, _USAGES_FIELDS, _take_usages)


def _take_usages(draft: AscendDraft, block: Block) -> None:
    if _AICORE in block.values:  # else it is `utilization_ratio`
        draft.take("overall_utilization_ratio", block.values.get(_OVERALL), quantities.ratio, _OVERALL)
    _take_memory_use(draft, block)


def _take_memory_use(draft: AscendDraft, block: Block) -> None:
    """Capacity and a whole percentage of it: used memory is right to half a percent of the capacity. Some
    outputs have no line for the capacity, and still have the percentages."""
    capacities = {kind: block.values.get(_capacity(kind)) for kind in _MEMORIES}
    told = [kind for kind, capacity in capacities.items() if capacity is not None]
    absent = {kind for kind in told if quantities.count(capacities[kind] or "") == 0}
    with_rates = [kind for kind in _MEMORIES if {_fill(kind), _bandwidth(kind)} & block.values.keys()]
    kind = next((kind for kind in (*told, *with_rates) if kind not in absent), None)
    if kind is None:
        if told:
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


# `npu-smi info -t common -i N`: use, clock, temperature and power of the chips of a board.

_COMMON = "npu-smi info -t common"

_POWER = "npu real-time power(w)"
_COMMON_FIELDS: tuple[Field, ...] = (
    ("utilization_ratio", quantities.ratio, ("aicore usage rate(%)",)),
    # Where the chip has HBM, `memory` is the DDR memory of its own CPUs.
    ("memory_used_ratio", quantities.fill, ("hbm usage rate(%)", "memory usage rate(%)")),
    ("temperature_celsius", quantities.celsius, ("temperature(c)",)),
)


def parse_common(text: str) -> Parsed:
    parsed = parsed_chips(text, _COMMON, _COMMON_FIELDS, _take_power_and_clock)
    measured: set[int | None] = set()
    devices: list[Device] = []
    for device in parsed.devices:
        if device.power_watts is not None and device.board_id in measured:
            shared = Absence("power_watts", AbsenceReason.SHARED)  # it is the NPU's, printed at each chip
            devices.append(replace(device, power_watts=None, absent=(*device.absent, shared)))
            continue
        if device.power_watts is not None:
            measured.add(device.board_id)
        devices.append(device)
    return replace(parsed, devices=tuple(devices))


def board_power_watts(text: str) -> float | None:
    """What the board's controller measures. On cards with 310P chips nobody else does, and it is the power of
    the whole card."""
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


def parse_memory(text: str) -> Parsed:
    return parsed_chips(text, _MEMORY, (), _take_memory_clock)


def _take_memory_clock(draft: AscendDraft, block: Block) -> None:
    """Chips with HBM print a clock of 0 for the DDR memory that they lack."""
    speed = first_of(block.values, "hbm clock speed(mhz)", "ddr clock speed(mhz)", "clock speed(mhz)")
    hertz = quantities.hertz(speed or "")
    if hertz:
        draft.values["clocks"] = (Clock("memory", hertz=hertz),)
    celsius = quantities.celsius(block.values.get("hbm temperature(c)", ""))
    if celsius is not None:
        draft.put("sensors.hbm", celsius)


# `npu-smi info -t volt -i N`: the voltage of a chip.

_VOLT = "npu-smi info -t volt"


def parse_volt(text: str) -> Parsed:
    return parsed_chips(text, _VOLT, (), _take_voltage)


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
_SEVERITY = {"single": "corrected", "double": "uncorrected"}  # ECC mends one wrong bit of a word, not two


def parse_ecc(text: str) -> Parsed:
    return parsed_chips(text, _ECC, (), _take_counts)


def _take_counts(draft: AscendDraft, block: Block) -> None:
    """Each kind of memory by itself, and the sum of them, which is the chip's."""
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


# `npu-smi info -t health -i N -c N`: the health of a chip, with the codes of the errors it has now.

_HEALTH = "npu-smi info -t health"
ERROR_KIND = "npu"

_CODE = re.compile(r"(?:0x)?([0-9a-f]{4,16})", re.IGNORECASE)
_MOST_CODES = 256
_INFORMATION_LIMIT = 300


def parse_health(text: str) -> Parsed:
    return parsed_chips(text, _HEALTH, (), _take_health)


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


def _information(block: Block) -> str | None:
    """What the driver says of its codes; that of the second and further ones stands on lines of its own."""
    first = block.values.get("error information", "")
    more = [line[1:].strip() for line in block.others if line.startswith(":")]
    told = [text for text in (first, *more) if quantities.absence(text) is None]
    return "; ".join(told)[:_INFORMATION_LIMIT] or None


# --- parse lists ------------------------------------------------------------
# Lists of npu-smi: the NPUs (`info -l`), the chips with their numbers (`info -m`) and the processes on each
# chip with their memory (`info -t proc-mem -i N`).


# `npu-smi info -l`: the NPUs that the driver counts, also those of which it has nothing more to say.

_LIST = "npu-smi info -l"

_MOST_BOARDS = 4096


def parse_list(text: str) -> Parsed:
    """Whether this is such a list. It tells of no chip what a device could be made of."""
    return Parsed(error=None if boards_in(text) else key_values.no_reading(text, _LIST))


def boards_in(text: str) -> dict[int, int]:
    """How many chips each NPU has. Where NPUs have no chips, each counts as one."""
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


# `npu-smi info -m`: which chip of which NPU has which number in the runtime and in `/dev`.

_MAP = "npu-smi info -m"

_LINE_LIMIT = 1000
_COLUMN = re.compile(r"npu id|slot id|chip id|chip logic id|chip phy-id|chip name|\S+", re.IGNORECASE)


def parse_map(text: str) -> Parsed:
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
        return Parsed(error=key_values.no_reading(text, _MAP), rejected=rejected.listed())
    return Parsed(devices=tuple(devices), rejected=rejected.listed())


def _columns(line: str) -> tuple[str, ...]:
    """Columns are as wide as their names, which hold single blanks."""
    if not line.casefold().startswith("npu id"):
        return ()
    return tuple(" ".join(match[0].casefold().split()) for match in _COLUMN.finditer(line))


def _chip(line: str, columns: tuple[str, ...], rejected: Rejections) -> AscendDraft | None:
    """The name stands last and may hold blanks."""
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


def parse_proc_mem(text: str) -> Parsed:
    """A chip without processes is shown too: the tool looked at it."""
    devices: list[Device] = []
    processes: list[Process] = []
    rejected = Rejections()
    for block in blocks_of(text):
        found = [line for line in block.others if _is_about_processes(line)]
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
    if not devices and not processes and not _says_none(text):
        return Parsed(error=key_values.no_reading(text, _PROC_MEM), rejected=rejected.listed())
    return Parsed(devices=tuple(devices), processes=tuple(processes), rejected=rejected.listed())


def _is_about_processes(line: str) -> bool:
    folded = line[:40].casefold()
    return folded.startswith((_NONE, "process id"))


def _without_name(line: str) -> str:
    """What comes after the pid may be a command line, which is not repeated."""
    return _NAME.split(line, 1)[0]


def _says_none(text: str) -> bool:
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
