"""`furiosa-smi status [--format json]`: liveness, memory, and each core's occupancy and utilisation.

In the table a device has a line per core and its name on the middle one, so lines are gathered until the next
rule, or, where rules are missing, until a core comes again.
"""

import re
from collections.abc import Iterator, Mapping

from accelscope.model import AbsenceReason, Core, Health, HealthState
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.readers.furiosa import cells, messages
from accelscope.readers.furiosa.documents import read_documents
from accelscope.readers.furiosa.draft import Draft
from accelscope.readers.furiosa.occupancy import core_occupancy, status_is_occupied
from accelscope.readers.furiosa.tables import Line, read_table

TOOL = "furiosa-smi status"

_UTILIZATION = re.compile(r"core\s{0,4}([0-9]{1,3})\s{0,4}:\s{0,4}([^\s,]{1,24}(?:\s%)?)", re.IGNORECASE)
_MEMORY = re.compile(r"([0-9.]{1,20})\s*([a-z]{1,3})?\s*/\s*([0-9.]{1,20})\s*([a-z]{1,3})", re.IGNORECASE)
_MOST_CORES = 1024


def parse(text: str) -> Parsed:
    rejected = Rejections()
    text = text.lstrip("\ufeff")
    documents = read_documents(text, rejected)
    if documents is not None:
        drafts = [_from_document(fields) for fields in documents.objects]
    else:
        table = read_table(text, _is_status, rejected)
        if not table.found:
            return Parsed(error=messages.no_reading(text, TOOL))
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
        return Parsed(error=messages.no_reading(text, TOOL), rejected=rejected.listed())
    return Parsed(devices=tuple(devices), rejected=rejected.listed())


def liveness(word: str) -> Health:
    """The card's health by the tool's own word."""
    bare = word.strip()[:80]
    match bare.casefold():
        case "alive" | "true" | "1":
            return Health(HealthState.OK, vendor_word=bare)
        case "dead" | "not alive" | "false" | "0":
            return Health(HealthState.CRITICAL, f"the card is not alive: {TOOL} says {bare}", bare)
    if cells.absence(bare) is not None:
        return Health(HealthState.UNKNOWN, "the tool does not say whether the card is alive")
    return Health(HealthState.UNKNOWN, f"{TOOL} calls it {bare}", bare)


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


def _from_lines(lines: list[Line]) -> Draft:
    draft = Draft()
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


def _from_document(fields: Mapping[str, object]) -> Draft:
    draft = Draft()
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
        held = core.get("pe_occupancy")
        if isinstance(held, bool):
            _set(draft, index, occupied=held)
        percent = core.get("pe_utilization", core.get("utilization"))
        if percent is not None:
            number = cells.plain_number(percent)
            _take_utilization(draft, index, str(percent) if number is None else f"{number:.9f}")
    _note_unmeasured(draft)
    return draft


def _take_common(draft: Draft, told: Mapping[str, object]) -> None:
    draft.take_all({name: told[name] for name in ("device", "dev_name", "arch", "index") if name in told})
    if "liveness" in told:
        draft.health = liveness(str(told["liveness"]))


def _take_memory(draft: Draft, text: str) -> None:
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


def _take_dram(draft: Draft, memory: object) -> None:
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


def _take_utilization(draft: Draft, index: int, text: str) -> None:
    bare = text.strip().rstrip(",")
    ratio = cells.ratio(bare)
    if ratio is None and cells.absence(bare) is None:
        draft.reject(f"core {index}", text)
    _set(draft, index, utilization=ratio)


def _set(draft: Draft, index: int, *, utilization: float | None = None, occupied: bool | None = None) -> None:
    before = draft.cores.get(index, Core(index))
    if len(draft.cores) < _MOST_CORES or index in draft.cores:
        draft.cores[index] = Core(
            index,
            utilization_ratio=before.utilization_ratio if utilization is None else utilization,
            occupied=before.occupied if occupied is None else occupied,
        )


def _note_unmeasured(draft: Draft) -> None:
    if draft.cores and all(core.utilization_ratio is None for core in draft.cores.values()):
        draft.absences["cores.utilization_ratio"] = AbsenceReason.NO_SAMPLE


def _objects(value: object) -> Iterator[Mapping[str, object]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, Mapping):
            yield item


def _core_index(value: object) -> int | None:
    number = cells.plain_number(value)
    return number if isinstance(number, int) and 0 <= number < _MOST_CORES else None
