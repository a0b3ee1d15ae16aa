"""What npu-smi prints as `key : value`, one command for each subject: `npu-smi info -t SUBJECT -i N`.

A block of values becomes a chip. Each subject has its keys, and a function for what is more than one value.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from accelscope.model import Absence, AbsenceReason, Clock, Device, EccCount, ErrorCount, Rail
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.ascend import cells, messages
from accelscope.vendors.ascend.draft import AscendDraft, die_id, health_of
from accelscope.vendors.ascend.key_values import Block, blocks_of, chips_of, first_of
from accelscope.vendors.common.values import strange_output

# What the parsers of `npu-smi info -t …` have in common: a block of values becomes a chip.

_MOST_CHIPS = 4096
_NVIDIA_LOG = "NVSMI LOG"
_LOG_BEGINS_WITHIN = 1000  # characters

# A place in the model, how its value is read, and the keys under which versions of the tool print it.
Field = tuple[str, cells.Read, tuple[str, ...]]


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
        return Parsed(error=messages.no_reading(text, tool), rejected=rejected.listed())
    for message in messages.messages_in(text):
        rejected.add(message.text, message.reason)
    return Parsed(devices=tuple(draft.device() for draft in drafts), rejected=rejected.listed())


# `npu-smi info -t board -i N [-c N]`: who a board is, or with `-c` one chip of it.

_BOARD = "npu-smi info -t board"

_BOARD_FIELDS: tuple[Field, ...] = (
    ("uuid", die_id, ("vdie id", "ddie id", "die id")),
    ("serial", cells.identifier, ("serial number",)),
    ("pci_address", cells.address, ("pcie bus info",)),
    ("model", cells.words, ("chip name", "product name")),
    ("pci_device_id", cells.pci_device_id, ("pci device id",)),
    ("chip_count", cells.count, ("chip count",)),
    ("driver_version", cells.words, ("software version",)),
    ("firmware_version", cells.words, ("firmware version",)),
)


def parse_board(text: str) -> Parsed:
    return parsed_chips(text, _BOARD, _BOARD_FIELDS)


# `npu-smi info -t usages -i N`: how busy the parts of a chip are.

_USAGES = "npu-smi info -t usages"

_AICORE, _OVERALL = "aicore usage rate(%)", "npu utilization(%)"
_USAGES_FIELDS: tuple[Field, ...] = (
    ("utilization_ratio", cells.ratio, (_AICORE, _OVERALL)),
    ("vector_utilization_ratio", cells.ratio, ("aivector usage rate(%)", "vectorcore usage rate(%)")),
    ("control_cpu_utilization_ratio", cells.ratio, ("ctrlcpu usage rate(%)",)),
    ("tensor_active_ratio", cells.ratio, ("aicube usage rate(%)",)),  # the unit that multiplies matrices
    ("decoder_utilization_ratio", cells.ratio, ("dvpp vdec usage rate(%)",)),
    ("encoder_utilization_ratio", cells.ratio, ("dvpp venc usage rate(%)",)),
    ("jpeg_utilization_ratio", cells.ratio, ("dvpp jpegd usage rate(%)",)),
)
# Memory by its kind, the accelerator's own first.
_MEMORIES = ("hbm", "ddr", "memory")


def parse_usages(text: str) -> Parsed:
    return parsed_chips(text, _USAGES, _USAGES_FIELDS, _take_usages)


def _take_usages(draft: AscendDraft, block: Block) -> None:
    if _AICORE in block.values:  # else it is `utilization_ratio`
        draft.take("overall_utilization_ratio", block.values.get(_OVERALL), cells.ratio, _OVERALL)
    _take_memory_use(draft, block)


def _take_memory_use(draft: AscendDraft, block: Block) -> None:
    """Capacity and a whole percentage of it: used memory is right to half a percent of the capacity. Some
    outputs have no line for the capacity, and still have the percentages."""
    capacities = {kind: block.values.get(_capacity(kind)) for kind in _MEMORIES}
    told = [kind for kind, capacity in capacities.items() if capacity is not None]
    absent = {kind for kind in told if cells.count(capacities[kind] or "") == 0}
    with_rates = [kind for kind in _MEMORIES if {_fill(kind), _bandwidth(kind)} & block.values.keys()]
    kind = next((kind for kind in (*told, *with_rates) if kind not in absent), None)
    if kind is None:
        if told:
            draft.absences["memory_total_bytes"] = AbsenceReason.NOT_SUPPORTED
        return
    draft.take("memory_total_bytes", capacities[kind], cells.memory, _capacity(kind))
    draft.take("memory_used_ratio", block.values.get(_fill(kind)), cells.fill, _fill(kind))
    total, ratio = draft.values.get("memory_total_bytes"), draft.values.get("memory_used_ratio")
    if total is not None and ratio is not None:
        draft.values["memory_used_bytes"] = round(total * ratio)
    draft.take("memory_utilization_ratio", block.values.get(_bandwidth(kind)), cells.ratio, _bandwidth(kind))


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
    ("utilization_ratio", cells.ratio, ("aicore usage rate(%)",)),
    # Where the chip has HBM, `memory` is the DDR memory of its own CPUs.
    ("memory_used_ratio", cells.fill, ("hbm usage rate(%)", "memory usage rate(%)")),
    ("temperature_celsius", cells.celsius, ("temperature(c)",)),
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
            power = cells.watts(block.values.get(_POWER, ""))
            if power:
                return power
    return None


def _take_power_and_clock(draft: AscendDraft, block: Block) -> None:
    draft.take_power(block.values.get(_POWER), _POWER)
    now = cells.hertz(block.values.get("aicore curfreq(mhz)", ""))
    rated = cells.hertz(block.values.get("aicore freq(mhz)", ""))
    if now is not None or rated is not None:
        draft.values["clocks"] = (Clock("aicore", hertz=now, max_hertz=rated),)


# `npu-smi info -t memory -i N`: clock and temperature of a chip's memory.

_MEMORY = "npu-smi info -t memory"


def parse_memory(text: str) -> Parsed:
    return parsed_chips(text, _MEMORY, (), _take_memory_clock)


def _take_memory_clock(draft: AscendDraft, block: Block) -> None:
    """Chips with HBM print a clock of 0 for the DDR memory that they lack."""
    speed = first_of(block.values, "hbm clock speed(mhz)", "ddr clock speed(mhz)", "clock speed(mhz)")
    hertz = cells.hertz(speed or "")
    if hertz:
        draft.values["clocks"] = (Clock("memory", hertz=hertz),)
    celsius = cells.celsius(block.values.get("hbm temperature(c)", ""))
    if celsius is not None:
        draft.put("sensors.hbm", celsius)


# `npu-smi info -t volt -i N`: the voltage of a chip.

_VOLT = "npu-smi info -t volt"


def parse_volt(text: str) -> Parsed:
    return parsed_chips(text, _VOLT, (), _take_voltage)


def _take_voltage(draft: AscendDraft, block: Block) -> None:
    volts = cells.volts(block.values.get("voltage(v)", ""))
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
        count = cells.count(text)
        if count is None:
            draft.absences["ecc"] = cells.absence(text) or AbsenceReason.UNREADABLE
            if cells.absence(text) is None:
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
    if cells.absence(codes) is not None:
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
    told = [text for text in (first, *more) if cells.absence(text) is None]
    return "; ".join(told)[:_INFORMATION_LIMIT] or None
