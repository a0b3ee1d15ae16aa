"""The outputs of furiosa-smi and furiosactl: info, list, ps, status and version."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from accelscope.model import AbsenceReason, Core, Health, HealthState, Process
from accelscope.parsing import ParseResult, Rejections
from accelscope.vendors.furiosa import documents as messages
from accelscope.vendors.furiosa import draft as cells
from accelscope.vendors.furiosa.documents import Line, filled_downwards, read_documents, read_table
from accelscope.vendors.furiosa.draft import FuriosaDraft, core_file, text_of, with_unique_ids

# Whether a process has opened a core, in the tools' words. An occupied core need not be running.

_CORE = re.compile(r"([0-9]{1,3})\s{0,4}\(([a-z ]{1,24})\)", re.IGNORECASE)
_OCCUPIED = frozenset({"occupied", "in use", "used", "busy", "running"})
_FREE = frozenset({"available", "ready", "idle", "free"})


def status_is_occupied(word: str) -> bool | None:
    """`available`, `occupied`, `Ready`; None: another word."""
    folded = word.strip().casefold()
    if folded in _FREE:
        return False
    return True if folded in _OCCUPIED or folded.startswith("occupied") else None


def core_occupancy(text: str) -> dict[int, bool | None]:
    """`0 (available), 1 (occupied)` by core."""
    return {int(match[1]): status_is_occupied(match[2]) for match in _CORE.finditer(text)}


# `furiosa-smi version`: the driver's version, if sysfs does not contain it.
#
# Key and value are on one line (`- device driver: 2026.1.0, 96977d5`) or, in later tools, on two.

_DRIVER = re.compile(r"device\s+driver\s*:?\s{1,20}([0-9][^\r\n]{0,79})", re.IGNORECASE)


def driver_version(text: str) -> str | None:
    match = _DRIVER.search(text[:10_000])
    return match[1].strip() if match else None


# `furiosa-smi info [--format full|json]` and `furiosactl info [--full|--format json]`: a row per card.

_MEASURED = frozenset({"temp", "power", "pci_bdf", "firmware"})


def parse_info(text: str, tool: str) -> ParseResult:
    rejected = Rejections()
    text = text.lstrip("\ufeff")
    documents = read_documents(text, rejected)
    if documents is not None:
        rows: list[Mapping[str, object]] = list(documents.objects)
    else:
        table = read_table(text, lambda columns: bool(columns & _MEASURED), rejected)
        if not table.found:
            return ParseResult(error=messages.no_reading(text, tool))
        rows = [row for block in table.blocks for row in block]
    drafts: list[FuriosaDraft] = []
    for row in rows:
        draft = FuriosaDraft()
        draft.take_all(row)
        if draft.identified:
            drafts.append(draft)
            rejected.extend(draft.rejected)
        else:
            rejected.add(str(dict(row)), "no_identity")
    if not drafts and rejected.listed():
        return ParseResult(error=messages.no_reading(text, tool), rejected=rejected.listed())
    devices = with_unique_ids([draft.device() for draft in drafts])
    return ParseResult(devices=devices, rejected=rejected.listed())


# `furiosactl list [--format json|yaml]`: a card's device files, and which of its cores are occupied.

_LIST = "furiosactl list"


def parse_list(text: str) -> ParseResult:
    rejected = Rejections()
    text = text.lstrip("\ufeff")
    drafts: dict[str, FuriosaDraft] = {}
    documents = read_documents(text, rejected)
    if documents is not None:
        for fields in documents.objects:
            occupancy, files = dict(_listed_cores(fields.get("cores"))), fields.get("devfiles")
            names = [text_of(name) for name in files] if isinstance(files, list) else []
            _take(drafts, rejected, fields.get("npu", fields.get("device")), occupancy, names)
    else:
        table = read_table(text, _is_list, rejected)
        if not table.found:
            return ParseResult(error=messages.no_reading(text, _LIST))
        for block in table.blocks:
            for row in filled_downwards(block, "npu"):
                names = re.split(r"[\s,]+", row.get("devfiles", row.get("devname", "")).strip())
                _take(drafts, rejected, row["npu"], _of_row(row, rejected), names)
    if not drafts and rejected.listed():
        return ParseResult(error=messages.no_reading(text, _LIST), rejected=rejected.listed())
    return ParseResult(devices=tuple(draft.device() for draft in drafts.values()), rejected=rejected.listed())


def _is_list(columns: frozenset[str]) -> bool:
    return "npu" in columns and bool(columns & {"devname", "devfiles", "cores"})


def _take(
    drafts: dict[str, FuriosaDraft],
    rejected: Rejections,
    npu: object,
    occupancy: Mapping[int, bool | None],
    files: Iterable[str],
) -> None:
    draft = FuriosaDraft()
    draft.take_all({"npu": text_of(npu)})
    name = draft.values.get("device_name")
    if name is None:
        rejected.add(f"npu: {text_of(npu)}", "no_identity")
        return
    draft = drafts.setdefault(name, draft)
    for index, occupied in occupancy.items():
        draft.cores[index] = Core(index, occupied=occupied)
    opening = tuple(file.name for file in map(core_file, files) if file is not None)
    if opening:
        draft.values["device_files"] = (*draft.values.get("device_files", ()), *opening)


def _listed_cores(value: object) -> Iterator[tuple[int, bool | None]]:
    for core in value if isinstance(value, list) else ():
        index = cells.count(text_of(core.get("idx"))) if isinstance(core, Mapping) else None
        if index is not None and index < 1000:
            yield index, status_is_occupied(str(core.get("status", "")))


def _of_row(row: Line, rejected: Rejections) -> dict[int, bool | None]:
    occupancy = core_occupancy(row.get("cores", ""))
    if occupancy or "devname" not in row:
        return occupancy
    file = core_file(row["devname"])
    if file is None:
        rejected.add(f"devname: {row['devname']}", "unreadable")
        return {}
    if len(file.cores) != 1:
        return {}  # a fusion also cannot be opened if only one of its cores is occupied
    return {file.cores[0]: status_is_occupied(row.get("status", ""))}


# `furiosa-smi ps` and `furiosactl ps`, table or JSON: processes with the cores that they have opened.
#
# The card is given by its name (`npu0`), a device file (`npu0pe0-1`) or a range of cores (`npu0:[0, 7]`). A
# process on several cards has one entry per card.

_CORE_RANGE = re.compile(
    r"npu([0-9]{1,4})\s?:\s?(?:\[\s?([0-9]{1,3})\s?(?:,|-)\s?([0-9]{1,3})\s?\]|\[?([0-9]{1,3})(?![0-9])\]?)",
    re.ASCII,
)
# Whole names only: the start of a longer name is another card, or all cores instead of some.
_FILE = re.compile(r"(?:[\w/]{1,40}/)?npu[0-9]{1,4}(?:pe[0-9]{1,3}(?:-[0-9]{1,3})?)?(?![\w:-])", re.ASCII)
_CARD_KEYS = ("npu_core", "npu", "device", "dev_name", "npu_cores", "devfile")
_COMMAND_KEYS = ("cmd", "command", "process_name", "name")
_LONGEST_CELL = 20_000


@dataclass(frozen=True, slots=True)
class _OpenedCores:
    card: int
    cores: tuple[int, ...]


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def parse_ps(text: str, tool: str) -> ParseResult:
    rejected = Rejections()
    text = text.lstrip("\ufeff")
    documents = read_documents(text, rejected)
    if documents is not None:
        rows: list[Mapping[str, object]] = list(documents.objects)
    else:
        table = read_table(text, lambda columns: "pid" in columns, rejected, free_text="cmd")
        if not table.found:
            return ParseResult(error=messages.no_reading(text, tool))
        rows = [row for block in table.blocks for row in block]
    found: dict[tuple[int, int], Process] = {}
    for row in rows:
        for process in _processes(row, rejected):
            key = (process.device_index or 0, process.pid)
            before = found.get(key)
            cores = {*process.cores, *(before.cores if before else ())}
            found[key] = Process(
                pid=process.pid,
                device_index=process.device_index,
                name=process.name,
                memory_bytes=process.memory_bytes,
                cores=tuple(sorted(cores)),
            )
    if rows and not found:
        return ParseResult(error=messages.no_reading(text, tool), rejected=rejected.listed())
    return ParseResult(processes=tuple(found.values()), rejected=rejected.listed())


def program_name(command: str) -> str | None:
    """The program's base name, without arguments, which may contain secrets."""
    words = command.strip()[:4096].split()
    while words and _ASSIGNMENT.match(words[0]):
        del words[0]  # `TOKEN=secret python3`: an environment variable
    first = words[:1]
    return (first[0].rstrip("/").rpartition("/")[2] or None) if first else None


def _processes(row: Mapping[str, object], rejected: Rejections) -> Iterator[Process]:
    pid = cells.count(text_of(row.get("pid")))
    where = next((text_of(row[key]) for key in _CARD_KEYS if row.get(key) not in (None, "")), "")
    opened = list(_opened_cores(where)) if pid else []
    if not pid or not opened:
        # Without the command, whose arguments may contain secrets.
        rejected.add(f"pid: {text_of(row.get('pid'))[:40]}, npu: {where[:200]}", "not_a_row")
        return
    command = next((text_of(row[key]) for key in _COMMAND_KEYS if row.get(key)), "")
    memory = next((text_of(row[key]) for key in ("memory", "memory_usage") if row.get(key)), "")
    for one in opened:
        yield Process(
            pid=pid,
            device_index=one.card,
            name=program_name(command),
            memory_bytes=cells.memory(memory),
            cores=one.cores,
        )


def _opened_cores(text: str) -> Iterator[_OpenedCores]:
    if len(text) > _LONGEST_CELL:
        return
    ranges = list(_CORE_RANGE.finditer(text))
    for match in ranges:
        first = int(match[2] or match[4])
        last = int(match[3] or first)
        if first <= last:
            yield _OpenedCores(int(match[1]), tuple(range(first, last + 1)))
    for match in () if ranges else _FILE.finditer(text):
        file = core_file(match[0])
        if file is not None:
            yield _OpenedCores(file.index, file.cores)


# `furiosa-smi status [--format json]`: liveness, memory, and each core's occupancy and utilisation.
#
# In the table a device has a line per core, with its name on the middle one. Lines are collected until the
# next rule or, if there are no rules, until a core is repeated.

_STATUS = "furiosa-smi status"

_UTILIZATION = re.compile(r"core\s{0,4}([0-9]{1,3})\s{0,4}:\s{0,4}([^\s,]{1,24}(?:\s%)?)", re.IGNORECASE)
_MEMORY = re.compile(r"([0-9.]{1,20})\s*([a-z]{1,3})?\s*/\s*([0-9.]{1,20})\s*([a-z]{1,3})", re.IGNORECASE)
_MOST_CORES = 1024


def parse_status(text: str) -> ParseResult:
    rejected = Rejections()
    text = text.lstrip("\ufeff")
    documents = read_documents(text, rejected)
    if documents is not None:
        drafts = [_from_document(fields) for fields in documents.objects]
    else:
        table = read_table(text, _is_status, rejected)
        if not table.found:
            return ParseResult(error=messages.no_reading(text, _STATUS))
        drafts = [_from_lines(lines) for block in table.blocks for lines in _devices(block)]
    devices = []
    for draft in drafts:
        if draft.identified:
            devices.append(draft.device())
            rejected.extend(draft.rejected)
        else:
            rejected.add(
                ", ".join(map(str, draft.values.values())) or "a block without a device", "no_identity"
            )
    if not devices and rejected.listed():
        return ParseResult(error=messages.no_reading(text, _STATUS), rejected=rejected.listed())
    return ParseResult(devices=tuple(devices), rejected=rejected.listed())


def liveness(word: str) -> Health:
    """The card's health from the tool's word."""
    bare = word.strip()[:80]
    match bare.casefold():
        case "alive" | "true" | "1":
            return Health(HealthState.OK, vendor_word=bare)
        case "dead" | "not alive" | "false" | "0":
            return Health(HealthState.CRITICAL, f"the card is not alive: {_STATUS} reports {bare}", bare)
    if cells.absence(bare) is not None:
        return Health(HealthState.UNKNOWN, "the tool does not say whether the card is alive")
    return Health(HealthState.UNKNOWN, f"{_STATUS} calls it {bare}", bare)


def _is_status(columns: frozenset[str]) -> bool:
    return "device" in columns and bool(columns & {"core_utilization", "cores", "liveness"})


def _devices(block: list[Line]) -> Iterator[list[Line]]:
    """The lines of each device of a block: one device, unless rules are missing."""
    lines: list[Line] = []
    seen: set[str] = set()
    for line in block:
        cores = {match[1] for match in _UTILIZATION.finditer(line.get("core_utilization", ""))}
        cores = cores or {str(core) for core in core_occupancy(line.get("cores", ""))}
        named = bool(line.get("device"))
        if lines and (cores & seen or (named and any(before.get("device") for before in lines))):
            yield lines
            lines, seen = [], set()
        lines.append(line)
        seen |= cores
    if lines:
        yield lines


def _from_lines(lines: list[Line]) -> FuriosaDraft:
    draft = FuriosaDraft()
    whole = {
        column: " ".join(line[column] for line in lines if line[column])
        for column in lines[0]
        if column in ("arch", "device", "liveness", "memory", "index")
    }
    _take_common(draft, whole)
    if whole.get("memory"):
        _take_memory(draft, whole["memory"])
    for line in lines:
        for index, occupied in core_occupancy(line.get("cores", "")).items():
            _set(draft, index, occupied=occupied)
        for match in _UTILIZATION.finditer(line.get("core_utilization", "")):
            _take_utilization(draft, int(match[1]), match[2])
    _note_unmeasured(draft)
    return draft


def _from_document(fields: Mapping[str, object]) -> FuriosaDraft:
    draft = FuriosaDraft()
    _take_common(draft, fields)
    _take_dram(draft, fields.get("memory"))
    for core in _objects(fields.get("cores")):
        index = _core_index(core.get("idx", core.get("core")))
        if index is not None:
            _set(draft, index, occupied=status_is_occupied(str(core.get("status", ""))))
    for core in _objects(fields.get("pe_utilizations")):
        index = _core_index(core.get("pe_core", core.get("core")))
        if index is None:
            draft.reject("pe_utilizations", str(core))
            continue
        occupied = core.get("pe_occupancy")
        if isinstance(occupied, bool):
            _set(draft, index, occupied=occupied)
        percent = core.get("pe_utilization", core.get("utilization"))
        if percent is not None:
            number = cells.plain_number(percent)
            _take_utilization(draft, index, str(percent) if number is None else f"{number:.9f}")
    _note_unmeasured(draft)
    return draft


def _take_common(draft: FuriosaDraft, fields: Mapping[str, object]) -> None:
    names = ("device", "dev_name", "arch", "index")
    draft.take_all({name: fields[name] for name in names if name in fields})
    if "liveness" in fields:
        draft.health = liveness(str(fields["liveness"]))


def _take_memory(draft: FuriosaDraft, text: str) -> None:
    """`0.00/47.50 GiB (0.00%)`."""
    match = _MEMORY.search(text)
    if match is None:
        if cells.absence(text) is None:
            draft.reject("memory", text)
        draft.absences["memory_used_bytes"] = cells.absence(text) or AbsenceReason.UNREADABLE
        return
    used, used_unit, total, total_unit = match.groups()
    draft.take("memory_used_bytes", f"{used} {used_unit or total_unit}", cells.memory, "memory")
    draft.take("memory_total_bytes", f"{total} {total_unit}", cells.memory, "memory")


def _take_dram(draft: FuriosaDraft, memory: object) -> None:
    """`{"DRAM": {"used_size": ..., "total_size": ...}}`, in bytes."""
    if not isinstance(memory, Mapping):
        return
    dram = next((part for name, part in memory.items() if str(name).casefold() in ("dram", "hbm")), None)
    if not isinstance(dram, Mapping):
        return
    for key, place in (("used_size", "memory_used_bytes"), ("total_size", "memory_total_bytes")):
        value = dram.get(key)
        number = cells.plain_number(value)
        if isinstance(number, int) and number >= 0:
            draft.values[place] = number
        elif value is not None:
            draft.reject(key, str(value))
            draft.absences[place] = AbsenceReason.UNREADABLE


def _take_utilization(draft: FuriosaDraft, index: int, text: str) -> None:
    bare = text.strip().rstrip(",")
    ratio = cells.ratio(bare)
    if ratio is None and cells.absence(bare) is None:
        draft.reject(f"core {index}", text)
    _set(draft, index, utilization=ratio)


def _set(
    draft: FuriosaDraft, index: int, *, utilization: float | None = None, occupied: bool | None = None
) -> None:
    before = draft.cores.get(index, Core(index))
    if len(draft.cores) < _MOST_CORES or index in draft.cores:
        draft.cores[index] = Core(
            index,
            utilization_ratio=before.utilization_ratio if utilization is None else utilization,
            occupied=before.occupied if occupied is None else occupied,
        )


def _note_unmeasured(draft: FuriosaDraft) -> None:
    if draft.cores and all(core.utilization_ratio is None for core in draft.cores.values()):
        draft.absences["cores.utilization_ratio"] = AbsenceReason.NO_SAMPLE


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


def _core_index(value: object) -> int | None:
    number = cells.plain_number(value)
    return number if isinstance(number, int) and 0 <= number < _MOST_CORES else None
