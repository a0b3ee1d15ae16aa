"""`npu-smi info -l`: the NPUs that the driver counts, also those of which it has nothing more to say."""

from accelscope.readers.ascend import cells
from accelscope.readers.ascend.key_values import key_value

_MOST_BOARDS = 4096


def boards_in(text: str) -> frozenset[int]:
    boards: set[int] = set()
    for line in text.lstrip("\ufeff").split("\n"):
        entry = key_value(line)
        board = cells.count(entry[1]) if entry is not None and entry[0] == "npu id" else None
        if board is not None and len(boards) < _MOST_BOARDS:
            boards.add(board)
    return frozenset(boards)
