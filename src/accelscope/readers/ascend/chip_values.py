"""What the parsers of `npu-smi info -t …` have in common: a block of values becomes a chip."""

from collections.abc import Callable, Sequence

from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.readers.ascend import cells, messages
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.key_values import Block, chips_of, first_of
from accelscope.readers.strange_output import strange_output

_MOST_CHIPS = 4096
_NVIDIA_LOG = "NVSMI LOG"
_LOG_BEGINS_WITHIN = 1000  # characters

# A place in the model, how its value is read, and the keys under which versions of the tool print it.
Field = tuple[str, cells.Read, tuple[str, ...]]


def parsed_chips(
    text: str,
    tool: str,
    fields: Sequence[Field],
    further: Callable[[Draft, Block], None] = lambda _draft, _block: None,
) -> Parsed:
    """`further` takes what is more than one value. A block in which nothing is known is no chip."""
    if _NVIDIA_LOG in text[:_LOG_BEGINS_WITHIN]:  # `nvidia-smi -q` has keys of the same names
        return Parsed(error=strange_output(text, tool))
    rejected = Rejections()
    drafts: list[Draft] = []
    for block in chips_of(text):
        draft = Draft(block.board, block.chip)
        for place, read, keys in fields:
            draft.take(place, first_of(block.values, *keys), read, keys[0])
        further(draft, block)
        if not draft.values and not draft.absences and not draft.sensors:
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
