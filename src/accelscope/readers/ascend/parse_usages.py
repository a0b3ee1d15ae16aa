"""`npu-smi info -t usages -i N`: how busy the parts of a chip are."""

from accelscope.model import AbsenceReason
from accelscope.parsing.parsed import Parsed
from accelscope.readers.ascend import cells
from accelscope.readers.ascend.chip_values import Field, parsed_chips
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.key_values import Block

TOOL = "npu-smi info -t usages"

_AICORE, _OVERALL = "aicore usage rate(%)", "npu utilization(%)"
_FIELDS: tuple[Field, ...] = (
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


def parse(text: str) -> Parsed:
    return parsed_chips(text, TOOL, _FIELDS, _take_more)


def _take_more(draft: Draft, block: Block) -> None:
    if _AICORE in block.values:  # else it is `utilization_ratio`
        draft.take("overall_utilization_ratio", block.values.get(_OVERALL), cells.ratio, _OVERALL)
    _take_memory(draft, block)


def _take_memory(draft: Draft, block: Block) -> None:
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
