"""`npu-smi info -l`: the NPUs that the driver counts, also those of which it has nothing more to say."""

from accelscope.parsing.parsed import Parsed
from accelscope.readers.ascend import cells, messages
from accelscope.readers.ascend.key_values import key_value

TOOL = "npu-smi info -l"

_MOST_BOARDS = 4096


def parse(text: str) -> Parsed:
    """Whether this is such a list. It tells of no chip what a device could be made of."""
    return Parsed(error=None if boards_in(text) else messages.no_reading(text, TOOL))


def boards_in(text: str) -> dict[int, int]:
    """How many chips each NPU has. Where NPUs have no chips, each counts as one."""
    boards: dict[int, int] = {}
    board: int | None = None
    for line in text.lstrip("\ufeff").split("\n"):
        key, value = key_value(line) or ("", "")
        if key == "npu id":
            board = cells.count(value)
            if board is not None and len(boards) < _MOST_BOARDS:
                boards[board] = 1
        elif key == "chip count" and board in boards:
            chips = cells.count(value)
            boards[board] = 1 if chips is None else chips
    return boards
