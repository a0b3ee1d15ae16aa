"""`npu-smi info -t usages -i N`: how busy the parts of a chip are."""

from accelscope.model import AbsenceReason
from accelscope.parsing.parsed import Parsed
from accelscope.readers.ascend import cells
from accelscope.readers.ascend.chip_values import Field, parsed_chips
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.key_values import Block

TOOL = "npu-smi info -t usages"

_FIELDS: tuple[Field, ...] = (
    ("utilization_ratio", cells.ratio, ("aicore usage rate(%)", "npu utilization(%)")),
    ("vector_utilization_ratio", cells.ratio, ("aivector usage rate(%)", "vectorcore usage rate(%)")),
    ("tensor_active_ratio", cells.ratio, ("aicube usage rate(%)",)),  # the unit that multiplies matrices
    ("decoder_utilization_ratio", cells.ratio, ("dvpp vdec usage rate(%)",)),
    ("encoder_utilization_ratio", cells.ratio, ("dvpp venc usage rate(%)",)),
    ("jpeg_utilization_ratio", cells.ratio, ("dvpp jpegd usage rate(%)",)),
)
# Memory by its kind, the accelerator's own first.
_MEMORIES = ("hbm", "ddr", "memory")


def parse(text: str) -> Parsed:
    return parsed_chips(text, TOOL, _FIELDS, _take_memory)


def _take_memory(draft: Draft, block: Block) -> None:
    """Capacity and a whole percentage of it: used memory is right to half a percent of the capacity. Some
    outputs have no line for the capacity, and still have the bandwidth."""
    capacities = {kind: block.values.get(f"{kind} capacity(mb)") for kind in _MEMORIES}
    told = [kind for kind, capacity in capacities.items() if capacity is not None]
    absent = [kind for kind in told if cells.count(capacities[kind] or "") == 0]
    kind = next((kind for kind in told if kind not in absent), None)
    if kind is None:
        kind = next(
            (kind for kind in _MEMORIES if kind not in absent and _bandwidth(kind) in block.values), None
        )
    if kind is None:
        if told:
            draft.absences["memory_total_bytes"] = AbsenceReason.NOT_SUPPORTED
        return
    draft.take("memory_total_bytes", capacities[kind], cells.memory, f"{kind} capacity(mb)")
    total = draft.values.get("memory_total_bytes")
    fill = f"{kind} usage rate(%)"
    if total is not None:
        draft.take("memory_used_bytes", block.values.get(fill), lambda text: _part(total, text), fill)
    traffic = _bandwidth(kind)
    draft.take("memory_utilization_ratio", block.values.get(traffic), cells.ratio, traffic)


def _bandwidth(kind: str) -> str:
    return f"{kind} bandwidth usage rate(%)"


def _part(total: int, percent: str) -> int | None:
    ratio = cells.ratio(percent)
    return None if ratio is None or ratio > 1 else round(total * ratio)
