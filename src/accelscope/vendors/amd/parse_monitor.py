"""`amd-smi monitor`: a table of GPUs, and below it a table of processes.

A value and its unit are two words, and the columns depend on version and options. Cells are recognised by
their form and assigned to the columns of the header in order. A line with more or fewer cells than columns is
rejected.
"""

import re
from collections.abc import Mapping, Sequence

from accelscope.model import Process
from accelscope.parsing import ParseError, ParseResult, Rejections
from accelscope.vendors.amd import documents, quantities
from accelscope.vendors.amd.draft import AmdDraft
from accelscope.vendors.amd.parse_amd_smi import ListedProcess, with_memory
from accelscope.vendors.common.values import program_name

TOOL = "amd-smi monitor"

# Place in the draft and how to read it, by column. The tool's GPU temperature is that of the hottest spot.
# PCIE_BW is the sum of both directions, which the model does not have.
_COLUMNS: Mapping[str, tuple[str, quantities.Read]] = {
    "POWER": ("power_watts", quantities.watts),
    "PWR_CAP": ("power_limit_watts", quantities.watts),
    "GPU_TEMP": ("sensors.junction", quantities.celsius),
    "GPU_T": ("sensors.junction", quantities.celsius),
    "HOTSPOT_TEMP": ("sensors.junction", quantities.celsius),
    "EDGE_TEMP": ("sensors.edge", quantities.celsius),
    "MEM_TEMP": ("sensors.memory", quantities.celsius),
    "MEM_T": ("sensors.memory", quantities.celsius),
    "GFX_UTIL": ("utilization_ratio", quantities.ratio),
    "GFX%": ("utilization_ratio", quantities.ratio),
    "MEM_UTIL": ("memory_utilization_ratio", quantities.ratio),
    "MEM%": ("memory_utilization_ratio", quantities.ratio),
    "ENC_UTIL": ("encoder_utilization_ratio", quantities.ratio),
    "ENC%": ("encoder_utilization_ratio", quantities.ratio),
    "DEC_UTIL": ("decoder_utilization_ratio", quantities.ratio),
    "DEC%": ("decoder_utilization_ratio", quantities.ratio),
    "GFX_CLOCK": ("clocks.graphics", quantities.hertz),
    "GFX_CLK": ("clocks.graphics", quantities.hertz),
    "MEM_CLOCK": ("clocks.memory", quantities.hertz),
    "MEM_CLK": ("clocks.memory", quantities.hertz),
    "ENC_CLOCK": ("clocks.video", quantities.hertz),
    "ENC_CLK": ("clocks.video", quantities.hertz),
    "VCLK": ("clocks.video", quantities.hertz),
    "DEC_CLOCK": ("clocks.data", quantities.hertz),
    "DEC_CLK": ("clocks.data", quantities.hertz),
    "DCLK": ("clocks.data", quantities.hertz),
    "THROTTLE": ("throttles.any", quantities.flag),
    "TVIOL_ACTIVE": ("throttles.socket_thermal", quantities.flag),
    "SINGLE_ECC": ("ecc.corrected", quantities.count),
    "CORRECTABLE_ECC": ("ecc.corrected", quantities.count),
    "DOUBLE_ECC": ("ecc.uncorrected", quantities.count),
    "UNCORRECTABLE_ECC": ("ecc.uncorrected", quantities.count),
    "PCIE_REPLAY": ("pcie.replays_total", quantities.count),
    "VRAM_USED": ("memory_used_bytes", quantities.mebibytes),
    "VRAM_FREE": ("memory_free_bytes", quantities.mebibytes),
    "VRAM_TOTAL": ("memory_total_bytes", quantities.mebibytes),
}
_USED_OF_TOTAL = "VRAM_USAGE"
_KNOWN = frozenset((*_COLUMNS, _USED_OF_TOTAL, "PID"))
_UNITS = r"W|°C|C|MHz|GHz|%|[KMGT]i?B|B|[KMG]b/s|[KMG]B/s|[num]s|s|mV|V|J|RPM"
_NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,6})?"
_CELL = re.compile(
    rf"""\s*(
        \[[^\]]*\]
      | {_NUMBER}\s*/\s*{_NUMBER}(?:\s+(?:{_UNITS})(?=\s|$))?
      | (?:{_NUMBER}|N/A)(?:\s+(?:{_UNITS})(?=\s|$))?(?=\s|$)
      | \S+
    )""",
    re.VERBOSE,
)
_PAIR = re.compile(rf"({_NUMBER})\s*/\s*({_NUMBER})\s*([KMGT]i?B)?")
_NAME = re.compile(r"[A-Z][A-Z0-9_%]*")
_LONGEST = 2000
_MOST_COLUMNS = 64


def parse(text: str) -> ParseResult:
    drafts: dict[int, AmdDraft] = {}
    listed: dict[tuple[int, int], ListedProcess] = {}
    rejected = Rejections()
    columns: list[str] = []
    for raw in text.lstrip("\ufeff").split("\n"):
        line = raw.strip()
        if not line or len(line) > _LONGEST:
            continue
        header = _header(line)
        if header is not None:
            columns = header
        elif columns and (line[0].isdecimal() or line.startswith("N/A")):
            row = _row(line, columns)
            if row is None:
                rejected.add(line, "not_a_row")
            elif "PID" in columns:
                _take_process(row, listed, rejected)
            else:
                _take_gpu(row, drafts, rejected)
    error = None if drafts or listed else documents.no_devices_error(text, TOOL)
    if error is not None and error.reason == "unrecognized" and columns:
        error = ParseError("truncated", f"{TOOL} printed a header line without readable rows")
    return ParseResult(
        devices=documents.build_devices(list(drafts.values())),
        processes=with_memory(list(listed.values())),
        error=error,
        rejected=rejected.listed(),
    )


def _header(line: str) -> list[str] | None:
    """The names of the columns, if the line is names only and GPU is among them."""
    if "GPU" not in line:
        return None
    names = line.split()
    whole = len(names) <= _MOST_COLUMNS and all(map(_NAME.fullmatch, names))
    return names if whole and "GPU" in names and not _KNOWN.isdisjoint(names) else None


def _row(line: str, columns: Sequence[str]) -> Mapping[str, str] | None:
    cells = _CELL.findall(line)
    if "NAME" in columns and len(cells) > len(columns):
        # A program's name may contain blanks: the number of cells before and after it shows where it ends.
        place = columns.index("NAME")
        end = len(cells) - (len(columns) - place - 1)
        cells = [*cells[:place], " ".join(cells[place:end]), *cells[end:]]
    return dict(zip(columns, cells, strict=True)) if len(cells) == len(columns) else None


def _take_gpu(row: Mapping[str, str], drafts: dict[int, AmdDraft], rejected: Rejections) -> None:
    index = quantities.count(row["GPU"])
    if index is None:
        rejected.add(f"GPU: {row['GPU']}", "no_identity")
        return
    draft = AmdDraft()
    draft.put("index", index)
    for name, cell in row.items():
        if name == _USED_OF_TOTAL:
            _take_pair(draft, cell)
        elif name in _COLUMNS:
            place, read = _COLUMNS[name]
            draft.take(place, cell, read, name)
    rejected.extend(draft.rejected)
    whole = drafts.get(index)
    if whole is not None and row.get("XCP", "0") != "0":
        # A further partition of the same GPU adds values that the lines before it do not have. (A repeated
        # line without a partition is the next round of `monitor --watch` and replaces the previous one.)
        for place, value in draft.values.items():
            whole.values.setdefault(place, value)
            whole.absences.pop(place, None)
        return
    drafts[index] = draft


def _take_pair(draft: AmdDraft, cell: str) -> None:
    """`3.1/191.7 GB`: used and total."""
    match = _PAIR.fullmatch(cell)
    unit = (match[3] or "GB") if match else ""
    used, total = (f"{match[1]} {unit}", f"{match[2]} {unit}") if match else (cell, cell)
    draft.take("memory_used_bytes", used, quantities.memory, _USED_OF_TOTAL)
    draft.take("memory_total_bytes", total, quantities.memory, _USED_OF_TOTAL)


def _take_process(
    row: Mapping[str, str], listed: dict[tuple[int, int], ListedProcess], rejected: Rejections
) -> None:
    index, pid = quantities.count(row["GPU"]), quantities.count(row["PID"])
    if index is None or not pid:
        if quantities.absence(row["PID"]) is None:
            rejected.add(f"PID: {row['PID']}", "not_a_process")
        return
    process = Process(
        pid=pid,
        device_index=index,
        name=program_name(row.get("NAME", ""), quantities.absence),
    )
    gpu_memory, total_memory = (quantities.memory(row.get(name, "")) for name in ("MEM_USAGE", "VRAM_MEM"))
    listed[index, pid] = ListedProcess(process, gpu_memory, total_memory)
