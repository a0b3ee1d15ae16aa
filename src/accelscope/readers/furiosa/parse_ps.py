"""`furiosa-smi ps` and `furiosactl ps`, table or JSON: processes with the cores that they hold.

The card is told by its name only (`npu0`), as a device file (`npu0pe0-1`) or with a range of cores
(`npu0:[0, 7]`); a process that holds several cards is several processes here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accelscope.model import Process
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.readers.furiosa import cells, messages
from accelscope.readers.furiosa.devfiles import core_file
from accelscope.readers.furiosa.documents import read_documents
from accelscope.readers.furiosa.draft import text_of
from accelscope.readers.furiosa.tables import read_table

_HOLDS = re.compile(
    r"npu([0-9]{1,4})\s?:\s?(?:\[\s?([0-9]{1,3})\s?(?:,|-)\s?([0-9]{1,3})\s?\]|\[?([0-9]{1,3})(?![0-9])\]?)",
    re.ASCII,
)
# Whole names only: the beginning of a longer one would be another card, or all cores instead of some.
_FILE = re.compile(r"(?:[\w/]{1,40}/)?npu[0-9]{1,4}(?:pe[0-9]{1,3}(?:-[0-9]{1,3})?)?(?![\w:-])", re.ASCII)
_CARD_KEYS = ("npu_core", "npu", "device", "dev_name", "npu_cores", "devfile")
_COMMAND_KEYS = ("cmd", "command", "process_name", "name")
_LONGEST_CELL = 20_000


@dataclass(frozen=True, slots=True)
class _Held:
    card: int
    cores: tuple[int, ...]


_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def parse(text: str, tool: str) -> Parsed:
    rejected = Rejections()
    text = text.lstrip("\ufeff")
    documents = read_documents(text, rejected)
    if documents is not None:
        rows: list[Mapping[str, object]] = list(documents.objects)
    else:
        table = read_table(text, lambda columns: "pid" in columns, rejected, free_text="cmd")
        if not table.found:
            return Parsed(error=messages.no_reading(text, tool))
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
        return Parsed(error=messages.no_reading(text, tool), rejected=rejected.listed())
    return Parsed(processes=tuple(found.values()), rejected=rejected.listed())


def program_name(command: str) -> str | None:
    """The program's base name: what follows are arguments, which hold secrets."""
    words = command.strip()[:4096].split()
    while words and _ASSIGNMENT.match(words[0]):
        del words[0]  # `TOKEN=secret python3`: what it was given in its environment
    first = words[:1]
    return (first[0].rstrip("/").rpartition("/")[2] or None) if first else None


def _processes(row: Mapping[str, object], rejected: Rejections) -> Iterator[Process]:
    pid = cells.count(text_of(row.get("pid")))
    where = next((text_of(row[key]) for key in _CARD_KEYS if row.get(key) not in (None, "")), "")
    held = list(_held(where)) if pid else []
    if not pid or not held:
        # Without its command, which holds arguments.
        rejected.add(f"pid: {text_of(row.get('pid'))[:40]}, npu: {where[:200]}", "not_a_row")
        return
    command = next((text_of(row[key]) for key in _COMMAND_KEYS if row.get(key)), "")
    memory = next((text_of(row[key]) for key in ("memory", "memory_usage") if row.get(key)), "")
    for one in held:
        yield Process(
            pid=pid,
            device_index=one.card,
            name=program_name(command),
            memory_bytes=cells.memory(memory),
            cores=one.cores,
        )


def _held(text: str) -> Iterator[_Held]:
    if len(text) > _LONGEST_CELL:
        return
    ranges = list(_HOLDS.finditer(text))
    for match in ranges:
        first = int(match[2] or match[4])
        last = int(match[3] or first)
        if first <= last:
            yield _Held(int(match[1]), tuple(range(first, last + 1)))
    for match in () if ranges else _FILE.finditer(text):
        file = core_file(match[0])
        if file is not None:
            yield _Held(file.index, file.cores)
