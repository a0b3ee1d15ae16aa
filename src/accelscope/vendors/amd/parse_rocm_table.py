"""`rocm-smi` without `--json`: its table of GPUs, and that of `--showhw`.

The columns changed with every generation of the tool:

    GPU  Temp (DieEdge)  AvgPwr  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%      up to ROCm 5
    Device  [Model : Revision]  Temp  Power  Partitions  SCLK …                  6.0, names below the rows
    Device  Node  IDs  Temp  Power  Partitions  SCLK …                           from 6.1 on
    GPU  NODE  DID  GUID  GFX VER  GFX RAS  …  VBIOS  BUS  PARTITION ID          --showhw

Some cells have several words (`0x74a1,   36728`, `NPS1, SPX, 0`), a fixed number in each column. So the
header determines how many words a row has, and a row with another number is rejected.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from accelscope.model import pci_address
from accelscope.parsing.parsed import Parsed, ParseError
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.amd import messages, quantities, trees
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.drm import DUAL_DIE_CODES
from accelscope.vendors.amd.rocm_fields import OF_THE_MODULE, share_modules

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
_LONGEST = 400
_MOST_COLUMNS = 32


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
        return Parsed(error=_nothing(text, header_seen=current is not None), rejected=rejected.listed())
    _share_power(list(drafts.values()))
    return Parsed(devices=trees.devices_of(list(drafts.values())), rejected=rejected.listed())


def _lines(text: str) -> Iterator[str]:
    for raw in text.lstrip("\ufeff").split("\n"):
        line = _TERMINAL.sub("", raw[: 2 * _LONGEST]).rstrip()
        if line.strip() and len(line) <= _LONGEST:
            yield line


def _header(line: str) -> _Table | None:
    explained = _IN_BRACKETS.findall(line)
    names = _IN_BRACKETS.sub(" ", line).replace("[Model : Revision]", "Model")
    columns = tuple(_TWO_WORDS.sub(r"\1_\2", " ".join(names.split())).split())
    if not columns or columns[0] not in _FIRST or len(columns) > _MOST_COLUMNS:
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


def _nothing(text: str, *, header_seen: bool) -> ParseError:
    error = messages.no_reading(text, ROCM_TABLE)
    if error.reason == "unrecognized" and header_seen:
        return ParseError(
            "truncated", f"{ROCM_TABLE} printed the head of a table and no row that can be read"
        )
    return error
