"""The names that rocm-smi gives to its values, the same in its JSON and its CSV.

Spelling changed over the versions (`Card series`, `Card Series`); the tool of Hygon's DCUs, a fork, has
names of its own. Everything is a word, and the unit stands in the name.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from accelscope.model import Process, ProcessType, pci_address
from accelscope.parsing import Parsed, ParseError, Rejections
from accelscope.vendors.amd import documents
from accelscope.vendors.amd import draft as quantities
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.drm import DUAL_DIE_CODES, slot_of
from accelscope.vendors.common.values import program_name

# Key in small letters, place in the model, how to read it. Of several keys for one place the first with a
# value is taken. `gpu memory use (%)` is how busy the memory controller is, not how full the memory is.
_FIELDS: tuple[tuple[str, str, quantities.Read], ...] = (
    ("unique id", "uuid", quantities.unique_id),
    ("serial number", "serial", quantities.identifier),
    ("pci bus", "pci_address", pci_address),
    ("card series", "model", quantities.name),
    ("device name", "model", quantities.name),
    ("card model", "model", quantities.name),
    ("gfx version", "architecture", quantities.architecture),
    ("vbios version", "firmware_version", quantities.words),
    ("gpu use (%)", "utilization_ratio", quantities.ratio),
    ("dcu use (%)", "utilization_ratio", quantities.ratio),
    ("hcu use (%)", "utilization_ratio", quantities.ratio),
    ("gpu memory read/write activity (%)", "memory_utilization_ratio", quantities.ratio),
    ("gpu memory use (%)", "memory_utilization_ratio", quantities.ratio),
    ("vram total memory (b)", "memory_total_bytes", quantities.memory),
    ("vram total memory (mib)", "memory_total_bytes", quantities.mebibytes),
    ("vram total used memory (b)", "memory_used_bytes", quantities.memory),
    ("vram total used memory (mib)", "memory_used_bytes", quantities.mebibytes),
    ("average graphics package power (w)", "power_watts", quantities.watts),
    ("current socket graphics package power (w)", "power_watts", quantities.watts),
    ("max graphics package power (w)", "power_limit_watts", quantities.watts),
    ("accumulated energy (uj)", "energy_joules", quantities.microjoules),
    ("fan speed (%)", "fans.0.ratio", quantities.ratio),
    ("fan level", "fans.0.ratio", quantities.ratio),
    ("fan rpm", "fans.0.rpm", quantities.rpm),
    ("current_fan_speed (rpm)", "fans.0.rpm", quantities.rpm),
    ("voltage (mv)", "rails.gfx", quantities.volts),
    ("pcie replay count", "pcie.replays_total", quantities.count),
    ("(topology) numa node", "numa_node", quantities.numa_node),
    ("(topology) numa affinity", "numa_node", quantities.numa_node),
    ("compute partition", "compute_partition", quantities.partition),
    ("memory partition", "memory_partition", quantities.partition),
)
_SENSOR = re.compile(r"temperature \(sensor ([a-z0-9 _]{1,32})\) \(c\)")
_OTHER_POWER = re.compile(r"(?!max )[a-z /]{1,60} power \(w\)")
_CLOCKS = {
    "sclk": "graphics",
    "mclk": "memory",
    "fclk": "fabric",
    "socclk": "soc",
    "vclk": "video",
    "dclk": "data",
    "dcefclk": "display",
}
_CLOCK_SPEED = re.compile(r"(\w{1,8}?)[0-9]? clock speed")
_VALID_RANGE = re.compile(r"valid (\w{1,8}) range")
_PCIE_LEVEL = re.compile(r"[0-9]{1,3} \(\s*([0-9.]{1,8}\s*GT/s)\s*,?\s*(x[0-9]{1,3})\s*\)", re.IGNORECASE)
_PID = re.compile(r"PID([0-9]{1,10})", re.ASCII)

OF_THE_MODULE = ("power_watts", "power_limit_watts", "energy_joules")

Values = Mapping[str, str]


def normal(key: str) -> str:
    return " ".join(key.split()).rstrip(":").strip().casefold()


def draft_of(values: Values, index: int, driver_version: str | None) -> AmdDraft:
    """`values` by their normal keys."""
    draft = AmdDraft()
    draft.put("index", index)
    for key, place, read in _FIELDS:
        if key not in values:
            continue
        if place == "numa_node" and quantities.is_no_numa_node(values[key]):
            continue
        draft.take(place, values[key], read, key)
    for key, value in values.items():
        _take_patterned(draft, key, value)
    if _is_on_a_secondary_die(values):
        draft.share(*OF_THE_MODULE)
    if driver_version is not None:
        draft.put("driver_version", driver_version)
    return draft


def _take_patterned(draft: AmdDraft, key: str, value: str) -> None:
    if match := _SENSOR.fullmatch(key):
        name = {"mem": "memory"}.get(match[1], match[1].replace(" ", ""))
        draft.take(f"sensors.{name}", value, quantities.celsius, key)
    elif match := _CLOCK_SPEED.fullmatch(key):
        if match[1] in _CLOCKS:
            draft.take(f"clocks.{_CLOCKS[match[1]]}", value, quantities.hertz, key)
    elif match := _VALID_RANGE.fullmatch(key):
        top = quantities.highest_hertz(value.rpartition(" - ")[2])
        if match[1] in _CLOCKS and top is not None:
            draft.put(f"clocks.{_CLOCKS[match[1]]}.max", top)
    elif key == "pcie clock level":
        if level := _PCIE_LEVEL.fullmatch(value.strip()[:100]):
            draft.take("pcie.generation", level[1], quantities.generation, key)
            draft.take("pcie.width", level[2], quantities.lanes, key)
    elif _OTHER_POWER.fullmatch(key) and "power_watts" not in draft.values:
        draft.take("power_watts", value, quantities.watts, key)


def is_dual_die(values: Values) -> bool:
    codes = (values.get(key, "") for key in ("device id", "gpu id"))
    named = "mi250" in (values.get("card series", "") + values.get("device name", "")).casefold()
    return named or any(_hexadecimal(code) in DUAL_DIE_CODES for code in codes)


def _is_on_a_secondary_die(values: Values) -> bool:
    """The tool's own word for a die whose module's power stands at the other die. Some versions say it of
    chips that have one die: there it means that nothing is measured."""
    said = any(quantities.SECONDARY_DIE in value.casefold()[:100] for value in values.values())
    return said and is_dual_die(values)


def share_modules(drafts: list[tuple[AmdDraft, bool]]) -> None:
    """What several cards show of one thing is counted at the first of them. Two dies of a module both show
    its power; they are matched by the module's serial number, else in their order. Partitions of a GPU, which
    have its address, show its power and its memory. The flag is True for a chip with two dies."""
    first: dict[object, AmdDraft] = {}
    unnumbered = count()
    for draft, dual_die in drafts:
        serial, address = draft.values.get("serial"), draft.values.get("pci_address")
        if dual_die:
            module = ("pair", next(unnumbered) // 2) if serial is None else serial
            # A die that leaves it to the other one may show 0.
            shows_power = bool(draft.values.get("power_watts"))
            if not shows_power or first.setdefault(module, draft) is not draft:
                draft.share(*OF_THE_MODULE)
        elif address is not None:
            whole = first.setdefault(slot_of(address), draft)
            if whole is not draft:
                draft.share(*OF_THE_MODULE)
                if draft.values.get("memory_total_bytes") == whole.values.get("memory_total_bytes"):
                    draft.share("memory_total_bytes", "memory_used_bytes")


def processes_of(system: Mapping[str, str]) -> tuple[list[Process], list[str]]:
    """`"PID710898": "name, GPUs, VRAM bytes, SDMA µs, CU occupancy %"`, and the lines that are not so. A
    name may hold commas. Memory is the sum over the GPUs of the process. The occupancy is a share of the
    compute units of all GPUs of the node, so it is not the utilization of any of them."""
    found, strange = [], []
    for key, value in system.items():
        match = _PID.fullmatch(key.strip())
        if match is None:
            continue
        parts = [part.strip() for part in value[:4096].rsplit(",", 4)]
        pid = int(match[1])
        if len(parts) != 5 or not pid:
            strange.append(f"{key}: {value[:200]}")
            continue
        name, _, memory, _, _ = parts
        found.append(
            Process(
                pid=pid,
                name=program_name(name, quantities.absence),
                type=ProcessType.COMPUTE,
                memory_bytes=quantities.memory(memory),
            )
        )
    return found, strange


def _hexadecimal(text: str) -> int | None:
    match = re.fullmatch(r"\s*0x([0-9a-f]{1,8})\s*", text, re.IGNORECASE)
    return int(match[1], 16) if match else None


# --- parse rocm json ------------------------------------------------------------
# `rocm-smi … --json`: an object with `card0`, `card1` … and `system`.


ROCM_JSON = "rocm-smi --json"

CARD = re.compile(r"card([0-9]{1,6})", re.ASCII)


def parse_rocm_json(text: str) -> Parsed:
    rejected = Rejections()
    cards: dict[int, dict[str, str]] = {}
    system: dict[str, str] = {}
    error = None
    for document in documents.documents(text):
        if not document.whole:
            rejected.add("the document is cut off", "truncated")
        error = error or documents.error_in_document(document.value)
        for key, member in document.value.items() if isinstance(document.value, dict) else ():
            match = CARD.fullmatch(key)
            if not isinstance(member, dict):
                continue
            if match is not None:
                cards.setdefault(int(match[1]), {}).update(_normal(member))
            elif key == "system":
                system.update(_words(member))
    parsed = devices_and_processes(cards, system, rejected)
    if parsed.devices or parsed.processes:
        return parsed
    return Parsed(error=error or _nothing(text, rejected), rejected=rejected.listed())


def devices_and_processes(
    cards: Mapping[int, Mapping[str, str]], system: Mapping[str, str], rejected: Rejections
) -> Parsed:
    """`cards` by their numbers, with normal keys; `system` as it is."""
    version = next((value for key, value in system.items() if normal(key) == "driver version"), "")
    driver_version = None if quantities.absence(version) else quantities.driver_version(version)
    drafts: list[tuple[AmdDraft, bool]] = [
        (draft_of(values, number, driver_version), is_dual_die(values))
        for number, values in sorted(cards.items())
    ]
    share_modules(drafts)
    for draft, _ in drafts:
        rejected.extend(draft.rejected)
    processes, strange = processes_of(system)
    for line in strange:
        rejected.add(line, "not_a_process")
    return Parsed(
        devices=documents.devices_of([draft for draft, _ in drafts]),
        processes=tuple(processes),
        rejected=rejected.listed(),
    )


def _nothing(text: str, rejected: Rejections) -> ParseError:
    error = documents.no_reading(text, ROCM_JSON)
    if error.reason == "unrecognized" and rejected.listed():
        return ParseError("truncated", f"{ROCM_JSON}: the document is cut off")
    return error


def _words(member: Mapping[str, object]) -> dict[str, str]:
    """All values are words; a number is taken for its digits."""
    told = ((key, quantities.text_of(value)) for key, value in member.items())
    return {key: text for key, text in told if text is not None}


def _normal(member: Mapping[str, object]) -> dict[str, str]:
    return {normal(key): text for key, text in _words(member).items()}


# --- parse rocm csv ------------------------------------------------------------
# `rocm-smi … --csv`: tables with a column `device`; what is said of the node as a whole is a table of its
# own.


ROCM_CSV = "rocm-smi --csv"

_LONGEST = 100_000
_MOST_COLUMNS = 1000


def parse_rocm_csv(text: str) -> Parsed:
    rejected = Rejections()
    cards: dict[int, dict[str, str]] = {}
    system: dict[str, str] = {}
    columns: list[str] = []
    device = 0  # place of the column that names the device
    for raw in text.lstrip("\ufeff").split("\n"):
        line = raw.strip()
        if not line or len(line) > _LONGEST:
            continue
        cells = [cell.strip().strip('"') for cell in line.split(",", _MOST_COLUMNS)]
        names = [cell.casefold() for cell in cells]
        if "device" in names and not any(map(CARD.fullmatch, names)):
            columns, device = cells, names.index("device")
            continue
        if not columns or len(cells) <= device:
            continue  # a warning before the table
        match = CARD.fullmatch(cells[device])
        if len(cells) != len(columns):
            if match is not None or cells[device] == "system":
                rejected.add(line, "not_a_row")
        elif match is not None:
            told = {normal(name): cell for name, cell in zip(columns, cells, strict=True)}
            cards.setdefault(int(match[1]), {}).update(told)
        elif cells[device] == "system":
            system.update(zip(columns, cells, strict=True))
    parsed = devices_and_processes(cards, system, rejected)
    if parsed.devices or parsed.processes:
        return parsed
    error = documents.no_reading(text, ROCM_CSV)
    if error.reason == "unrecognized" and columns:
        error = ParseError("truncated", f"{ROCM_CSV} printed a header line and no row that can be read")
    return Parsed(error=error, rejected=rejected.listed())


# --- parse rocm table ------------------------------------------------------------
# `rocm-smi` without `--json`: its table of GPUs, and that of `--showhw`.
#
# The columns changed with every generation of the tool:
#
#     GPU  Temp (DieEdge)  AvgPwr  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%      up to ROCm 5
#     Device  [Model : Revision]  Temp  Power  Partitions  SCLK …                  6.0, names below the rows
#     Device  Node  IDs  Temp  Power  Partitions  SCLK …                           from 6.1 on
#     GPU  NODE  DID  GUID  GFX VER  GFX RAS  …  VBIOS  BUS  PARTITION ID          --showhw
#
# Some cells have several words (`0x74a1,   36728`, `NPS1, SPX, 0`), a fixed number in each column. So the
# header determines how many words a row has, and a row with another number is rejected.


ROCM_TABLE = "rocm-smi"

# Place of the columns that have one word.
_COLUMNS: Mapping[str, tuple[str, quantities.Read]] = {
    "AvgPwr": ("power_watts", quantities.watts),
    "Power": ("power_watts", quantities.watts),
    "PwrCap": ("power_limit_watts", quantities.watts),
    "SCLK": ("clocks.graphics", quantities.hertz),
    "MCLK": ("clocks.memory", quantities.hertz),
    "Fan": ("fans.0.ratio", quantities.ratio),
    "VRAM%": ("memory_used_ratio", quantities.ratio),  # the table has no sizes
    "GPU%": ("utilization_ratio", quantities.ratio),
    "DID": ("pci_device_id", quantities.pci_device_id),
    "GFX_VER": ("architecture", quantities.architecture),
    "VBIOS": ("firmware_version", quantities.words),
    "BUS": ("pci_address", pci_address),
}
_WORDS = {"IDs": 2, "Model": 3}  # words of a cell, where there are several
_RAS = ("GFX_RAS", "SDMA_RAS", "UMC_RAS")
_FIRST = ("GPU", "Device")
_SENSORS = {"edge": "edge", "dieedge": "edge", "junction": "junction", "memory": "memory", "mem": "memory"}
_TERMINAL = re.compile(r"\x1b?\[[0-9;]{1,8}m")  # italics, also in a pipe
_IN_BRACKETS = re.compile(r"\(([^()]{0,40})\)")
_TWO_WORDS = re.compile(r"\b(SCLK|MCLK|GFX|SDMA|UMC|PARTITION) (OD|VER|RAS|ID)\b")
_INDEX = re.compile(r"[0-9]{1,6}", re.ASCII)
_NAME_WIDTH = 20  # to which the tool cuts names
_PARSE_ROCM_TABLE_LONGEST = 400
_PARSE_ROCM_TABLE_MOST_COLUMNS = 32


@dataclass(slots=True)
class _Table:
    columns: tuple[str, ...]
    sensor: str = "edge"
    partition_words: int = 2

    def cells(self, line: str) -> dict[str, list[str]] | None:
        """The words of a row by column; None: it has more or fewer than the header says."""
        words = line.split()
        found = {}
        for column in self.columns:
            count = self.partition_words if column == "Partitions" else _WORDS.get(column, 1)
            found[column], words = [word.rstrip(",") for word in words[:count]], words[count:]
            if len(found[column]) != count:
                return None
        return None if words else found


def parse_rocm_table(text: str) -> Parsed:
    drafts: dict[int, AmdDraft] = {}
    rejected = Rejections()
    current: _Table | None = None
    named: AmdDraft | None = None  # of the row above
    for line in _lines(text):
        header = _header(line)
        if header is not None:
            current, named = header, None
        elif current is not None and _INDEX.fullmatch(line.split()[0]):
            cells = current.cells(line)
            named = None
            if cells is None:
                rejected.add(line, "not_a_row")
                continue
            index = int(line.split()[0])
            named = _draft(cells, current.sensor, index)
            rejected.extend(named.rejected)
            if index in drafts:
                _complete(drafts[index], named)
                named = drafts[index]
            drafts[index] = named
        elif current is not None and named is None and "(" in line:
            _explain(current, _IN_BRACKETS.findall(line))
        elif current is not None and named is not None and "Model" in current.columns and line[0].isspace():
            _take_name(named, line.strip())
    if not drafts:
        return Parsed(
            error=_nothing_parse_rocm_table(text, header_seen=current is not None), rejected=rejected.listed()
        )
    _share_power(list(drafts.values()))
    return Parsed(devices=documents.devices_of(list(drafts.values())), rejected=rejected.listed())


def _lines(text: str) -> Iterator[str]:
    for raw in text.lstrip("\ufeff").split("\n"):
        line = _TERMINAL.sub("", raw[: 2 * _PARSE_ROCM_TABLE_LONGEST]).rstrip()
        if line.strip() and len(line) <= _PARSE_ROCM_TABLE_LONGEST:
            yield line


def _header(line: str) -> _Table | None:
    explained = _IN_BRACKETS.findall(line)
    names = _IN_BRACKETS.sub(" ", line).replace("[Model : Revision]", "Model")
    columns = tuple(_TWO_WORDS.sub(r"\1_\2", " ".join(names.split())).split())
    if not columns or columns[0] not in _FIRST or len(columns) > _PARSE_ROCM_TABLE_MOST_COLUMNS:
        return None
    if "Temp" not in columns and "DID" not in columns:
        return None
    table = _Table(columns, partition_words=3 if "Node" in columns else 2)
    _explain(table, explained)
    return table


def _explain(table: _Table, explained: list[str]) -> None:
    """In the header or the line below it: which sensor it is, and what is in a cell of partitions."""
    for words in explained:
        table.sensor = _SENSORS.get(words.strip().casefold(), table.sensor)
        if words.startswith("Mem,"):
            table.partition_words = len(words.split(","))


def _draft(cells: Mapping[str, list[str]], sensor: str, index: int) -> AmdDraft:
    draft = AmdDraft()
    draft.put("index", index)
    for column, words in cells.items():
        if column in _COLUMNS:
            place, read = _COLUMNS[column]
            draft.take(place, words[0], read, column)
        elif column == "Temp":
            draft.take(f"sensors.{sensor}", words[0], quantities.celsius, column)
        elif column == "IDs":
            draft.take("pci_device_id", words[0], quantities.pci_device_id, column)
        elif column == "Partitions":
            draft.take("memory_partition", words[0], quantities.partition, column)
            draft.take("compute_partition", words[1], quantities.partition, column)
    states = [state for column in _RAS if column in cells for state in map(quantities.flag, cells[column])]
    flags = [state for state in states if state is not None]
    if flags:
        draft.put("ecc_enabled", any(flags))
    draft.partition = _partition(cells)
    return draft


def _partition(cells: Mapping[str, list[str]]) -> int | None:
    word = (cells.get("PARTITION_ID") or cells.get("Partitions", [])[2:] or [""])[0]
    return int(word) if _INDEX.fullmatch(word) else None


def _take_name(draft: AmdDraft, text: str) -> None:
    """A name that fills the column may be cut."""
    draft.take("model", text if len(text) < _NAME_WIDTH else "", quantities.name, "Name")


def _complete(draft: AmdDraft, later: AmdDraft) -> None:
    """Another table of the same GPU, or the next round of a tool that is run again and again."""
    for place, value in later.values.items():
        draft.put(place, value)
    for place, reason in later.absences.items():
        draft.values.pop(place, None)
        draft.absences[place] = reason
    if later.partition is not None:
        draft.partition = later.partition


def _share_power(drafts: list[AmdDraft]) -> None:
    """Two dies show the power of their module, and partitions that of their GPU: counted at the first."""
    share_modules([(draft, _is_die(draft)) for draft in drafts])
    for draft in drafts:
        if draft.partition:
            draft.share(*OF_THE_MODULE)


def _is_die(draft: AmdDraft) -> bool:
    code = draft.values.get("pci_device_id")
    return code is not None and int(code, 16) in DUAL_DIE_CODES


def _nothing_parse_rocm_table(text: str, *, header_seen: bool) -> ParseError:
    error = documents.no_reading(text, ROCM_TABLE)
    if error.reason == "unrecognized" and header_seen:
        return ParseError(
            "truncated", f"{ROCM_TABLE} printed the head of a table and no row that can be read"
        )
    return error
