"""The output of rocm-smi: JSON, CSV and tables.

JSON and CSV have the same keys. Their spelling depends on the version (`Card series`, `Card Series`), and the
fork for Hygon's DCUs has some keys of its own. All values are strings, and the unit is part of the key.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from accelscope.model import Process, ProcessType, pci_address
from accelscope.parsing import ParseError, ParseResult, Rejections
from accelscope.vendors.amd import documents, quantities
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.drm import DUAL_DIE_CODES, slot_of
from accelscope.vendors.common.values import identifier, program_name

# Key in lower case, place in the draft, how to read it. Of several keys for one place the first with a value
# is used. `gpu memory use (%)` is the utilization of the memory controller, not the fraction of memory in
# use.
_FIELDS: tuple[tuple[str, str, quantities.Read], ...] = (
    ("unique id", "uuid", quantities.unique_id),
    ("serial number", "serial", identifier),
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

_MODULE_VALUES = ("power_watts", "power_limit_watts", "energy_joules")

Values = Mapping[str, str]


def _normalize(key: str) -> str:
    return " ".join(key.split()).rstrip(":").strip().casefold()


def _make_draft(values: Values, index: int, driver_version: str | None) -> AmdDraft:
    """`values` have normalized keys."""
    draft = AmdDraft()
    draft.put("index", index)
    for key, place, read in _FIELDS:
        if key not in values:
            continue
        if place == "numa_node" and quantities.is_no_numa_node(values[key]):
            continue
        draft.take(place, values[key], read, key)
    for key, value in values.items():
        _take_by_pattern(draft, key, value)
    if _is_secondary_die(values):
        draft.share(*_MODULE_VALUES)
    if driver_version is not None:
        draft.put("driver_version", driver_version)
    return draft


def _take_by_pattern(draft: AmdDraft, key: str, value: str) -> None:
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


def _is_dual_die(values: Values) -> bool:
    codes = (values.get(key, "") for key in ("device id", "gpu id"))
    named = "mi250" in (values.get("card series", "") + values.get("device name", "")).casefold()
    return named or any(_hexadecimal(code) in DUAL_DIE_CODES for code in codes)


def _is_secondary_die(values: Values) -> bool:
    """The tool marks a die whose module reports its power at the other die. Some versions print the mark for
    chips with one die, too, where it means that power is not measured."""
    marked = any(quantities.SECONDARY_DIE in value.casefold()[:100] for value in values.values())
    return marked and _is_dual_die(values)


def _share_module_values(drafts: list[tuple[AmdDraft, bool]]) -> None:
    """Keep a value that several cards have in common only at the first of them. Both dies of a module show
    its power; they are matched by the module's serial number, else in their order. Partitions of a GPU have
    its address and show its power and memory. The flag is True for a module with two dies."""
    first: dict[object, AmdDraft] = {}
    unnumbered = count()
    for draft, dual_die in drafts:
        serial, address = draft.values.get("serial"), draft.values.get("pci_address")
        if dual_die:
            module = ("pair", next(unnumbered) // 2) if serial is None else serial
            # The die that does not report the power may show 0.
            shows_power = bool(draft.values.get("power_watts"))
            if not shows_power or first.setdefault(module, draft) is not draft:
                draft.share(*_MODULE_VALUES)
        elif address is not None:
            gpu = first.setdefault(slot_of(address), draft)
            if gpu is not draft:
                draft.share(*_MODULE_VALUES)
                if draft.values.get("memory_total_bytes") == gpu.values.get("memory_total_bytes"):
                    draft.share("memory_total_bytes", "memory_used_bytes")


def _parse_processes(system: Mapping[str, str]) -> tuple[list[Process], list[str]]:
    """The processes, and the lines that cannot be read. A line is `"PID710898": "name, GPUs, VRAM bytes, SDMA
    µs, CU occupancy %"`, and the name may contain commas. Memory is the sum over the GPUs of the process. The
    occupancy is a fraction of the compute units of all GPUs of the node, so it is not used as the utilization
    of a GPU."""
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


# `rocm-smi … --json`: an object with `card0`, `card1` … and `system`.

ROCM_JSON = "rocm-smi --json"

_CARD = re.compile(r"card([0-9]{1,6})", re.ASCII)


def parse_rocm_json(text: str) -> ParseResult:
    rejected = Rejections()
    cards: dict[int, dict[str, str]] = {}
    system: dict[str, str] = {}
    error = None
    for document in documents.json_documents(text):
        if not document.complete:
            rejected.add("the document is truncated", "truncated")
        error = error or documents.find_document_error(document.value)
        for key, member in document.value.items() if isinstance(document.value, dict) else ():
            match = _CARD.fullmatch(key)
            if not isinstance(member, dict):
                continue
            if match is not None:
                texts = {_normalize(name): text for name, text in _texts(member).items()}
                cards.setdefault(int(match[1]), {}).update(texts)
            elif key == "system":
                system.update(_texts(member))
    parsed = _build_parsed(cards, system, rejected)
    if parsed.devices or parsed.processes:
        return parsed
    if error is None:
        error = documents.no_devices_error(text, ROCM_JSON)
        if error.reason == "unrecognized" and rejected.listed():
            error = ParseError("truncated", f"{ROCM_JSON}: the document is truncated")
    return ParseResult(error=error, rejected=rejected.listed())


def _build_parsed(
    cards: Mapping[int, Mapping[str, str]], system: Mapping[str, str], rejected: Rejections
) -> ParseResult:
    """`cards` are by their numbers and have normalized keys; the keys of `system` are not normalized."""
    version = next((value for key, value in system.items() if _normalize(key) == "driver version"), "")
    driver_version = None if quantities.absence(version) else quantities.driver_version(version)
    drafts: list[tuple[AmdDraft, bool]] = [
        (_make_draft(values, number, driver_version), _is_dual_die(values))
        for number, values in sorted(cards.items())
    ]
    _share_module_values(drafts)
    for draft, _ in drafts:
        rejected.extend(draft.rejected)
    processes, strange = _parse_processes(system)
    for line in strange:
        rejected.add(line, "not_a_process")
    return ParseResult(
        devices=documents.build_devices([draft for draft, _ in drafts]),
        processes=tuple(processes),
        rejected=rejected.listed(),
    )


def _texts(member: Mapping[str, object]) -> dict[str, str]:
    texts = ((key, quantities.text_of(value)) for key, value in member.items())
    return {key: text for key, text in texts if text is not None}


# `rocm-smi … --csv`: tables with a column `device`. The values of the node are in a table of their own.

ROCM_CSV = "rocm-smi --csv"

_LONGEST_CSV_LINE = 100_000
_MOST_CSV_COLUMNS = 1000


def parse_rocm_csv(text: str) -> ParseResult:
    rejected = Rejections()
    cards: dict[int, dict[str, str]] = {}
    system: dict[str, str] = {}
    columns: list[str] = []
    device = 0  # position of the column `device`
    for raw in text.lstrip("\ufeff").split("\n"):
        line = raw.strip()
        if not line or len(line) > _LONGEST_CSV_LINE:
            continue
        cells = [cell.strip().strip('"') for cell in line.split(",", _MOST_CSV_COLUMNS)]
        names = [cell.casefold() for cell in cells]
        if "device" in names and not any(map(_CARD.fullmatch, names)):
            columns, device = cells, names.index("device")
            continue
        if not columns or len(cells) <= device:
            continue  # a warning before the table
        match = _CARD.fullmatch(cells[device])
        if len(cells) != len(columns):
            if match is not None or cells[device] == "system":
                rejected.add(line, "not_a_row")
        elif match is not None:
            values = {_normalize(name): cell for name, cell in zip(columns, cells, strict=True)}
            cards.setdefault(int(match[1]), {}).update(values)
        elif cells[device] == "system":
            system.update(zip(columns, cells, strict=True))
    parsed = _build_parsed(cards, system, rejected)
    if parsed.devices or parsed.processes:
        return parsed
    error = documents.no_devices_error(text, ROCM_CSV)
    if error.reason == "unrecognized" and columns:
        error = ParseError("truncated", f"{ROCM_CSV} printed a header line without readable rows")
    return ParseResult(error=error, rejected=rejected.listed())


# `rocm-smi` without `--json`: its table of GPUs, and that of `--showhw`.
#
# The columns depend on the generation of the tool:
#
#     GPU  Temp (DieEdge)  AvgPwr  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%      up to ROCm 5
#     Device  [Model : Revision]  Temp  Power  Partitions  SCLK …                  6.0, names below the rows
#     Device  Node  IDs  Temp  Power  Partitions  SCLK …                           from 6.1 on
#     GPU  NODE  DID  GUID  GFX VER  GFX RAS  …  VBIOS  BUS  PARTITION ID          --showhw
#
# Some cells have several words (`0x74a1,   36728`, `NPS1, SPX, 0`), a fixed number in each column. So the
# header determines how many words a row has, and a row with another number is rejected.

ROCM_TABLE = "rocm-smi"

# Columns of one word: place in the draft, how to read it.
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
_NAME_WIDTH = 20  # longer names are truncated
_LONGEST_TABLE_LINE = 400
_MOST_TABLE_COLUMNS = 32


@dataclass(slots=True)
class _Table:
    columns: tuple[str, ...]
    sensor: str = "edge"
    partition_words: int = 2

    def cells(self, line: str) -> dict[str, list[str]] | None:
        """The words of a row by column. None if their number does not match the header."""
        words = line.split()
        found = {}
        for column in self.columns:
            count = self.partition_words if column == "Partitions" else _WORDS.get(column, 1)
            found[column], words = [word.rstrip(",") for word in words[:count]], words[count:]
            if len(found[column]) != count:
                return None
        return None if words else found


def parse_rocm_table(text: str) -> ParseResult:
    drafts: dict[int, AmdDraft] = {}
    rejected = Rejections()
    current: _Table | None = None
    row: AmdDraft | None = None  # the row above, whose name may follow
    for line in _lines(text):
        header = _header(line)
        if header is not None:
            current, row = header, None
        elif current is not None and _INDEX.fullmatch(line.split()[0]):
            cells = current.cells(line)
            row = None
            if cells is None:
                rejected.add(line, "not_a_row")
                continue
            index = int(line.split()[0])
            row = _row_draft(cells, current.sensor, index)
            rejected.extend(row.rejected)
            if index in drafts:
                _update(drafts[index], row)
                row = drafts[index]
            drafts[index] = row
        elif current is not None and row is None and "(" in line:
            _take_explanations(current, _IN_BRACKETS.findall(line))
        elif current is not None and row is not None and "Model" in current.columns and line[0].isspace():
            _take_name(row, line.strip())
    if not drafts:
        error = documents.no_devices_error(text, ROCM_TABLE)
        if error.reason == "unrecognized" and current is not None:
            error = ParseError("truncated", f"{ROCM_TABLE} printed a table header without readable rows")
        return ParseResult(error=error, rejected=rejected.listed())
    _share_power(list(drafts.values()))
    return ParseResult(devices=documents.build_devices(list(drafts.values())), rejected=rejected.listed())


def _lines(text: str) -> Iterator[str]:
    for raw in text.lstrip("\ufeff").split("\n"):
        line = _TERMINAL.sub("", raw[: 2 * _LONGEST_TABLE_LINE]).rstrip()
        if line.strip() and len(line) <= _LONGEST_TABLE_LINE:
            yield line


def _header(line: str) -> _Table | None:
    explained = _IN_BRACKETS.findall(line)
    names = _IN_BRACKETS.sub(" ", line).replace("[Model : Revision]", "Model")
    columns = tuple(_TWO_WORDS.sub(r"\1_\2", " ".join(names.split())).split())
    if not columns or columns[0] not in _FIRST or len(columns) > _MOST_TABLE_COLUMNS:
        return None
    if "Temp" not in columns and "DID" not in columns:
        return None
    table = _Table(columns, partition_words=3 if "Node" in columns else 2)
    _take_explanations(table, explained)
    return table


def _take_explanations(table: _Table, explained: list[str]) -> None:
    """Words in brackets, in the header or below it, name the sensor and the words of a cell of partitions."""
    for words in explained:
        table.sensor = _SENSORS.get(words.strip().casefold(), table.sensor)
        if words.startswith("Mem,"):
            table.partition_words = len(words.split(","))


def _row_draft(cells: Mapping[str, list[str]], sensor: str, index: int) -> AmdDraft:
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
    """A name that fills the column may be truncated, so it is not used."""
    draft.take("model", text if len(text) < _NAME_WIDTH else "", quantities.name, "Name")


def _update(draft: AmdDraft, later: AmdDraft) -> None:
    """Add a row of another table, or of the next round in watch mode."""
    for place, value in later.values.items():
        draft.put(place, value)
    for place, reason in later.absences.items():
        draft.values.pop(place, None)
        draft.absences[place] = reason
    if later.partition is not None:
        draft.partition = later.partition


def _share_power(drafts: list[AmdDraft]) -> None:
    """Two dies show the power of their module, and partitions that of their GPU. It is kept at the first."""
    _share_module_values([(draft, _is_die(draft)) for draft in drafts])
    for draft in drafts:
        if draft.partition:
            draft.share(*_MODULE_VALUES)


def _is_die(draft: AmdDraft) -> bool:
    code = draft.values.get("pci_device_id")
    return code is not None and int(code, 16) in DUAL_DIE_CODES
