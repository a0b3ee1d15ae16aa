"""`key : value` lines of `npu-smi info -t …`, divided into blocks that belong to one chip each.

In some commands `Chip ID : n` comes before the values of its chip, in others after them; which it is shows
where the first one stands. The block of the board's controller (MCU) repeats the chips' keys, and belongs to
none of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from accelscope.vendors.ascend import cells, messages

CONTROLLERS = frozenset({"mcu", "3559"})  # chips of the board that are no NPUs

_LINE_LIMIT = 2000
_MOST_OTHERS = 100_000  # lines of a block
_NPU, _CHIP, _CHIP_COUNT, _CHIP_NAME = "npu id", "chip id", "chip count", "chip name"
_PROCESS = "process id"  # begins a line of several pairs
_HEADINGS = frozenset({_CHIP_COUNT, "npu name"})  # stand above the first chip


@dataclass(slots=True)
class Block:
    """Keys in small letters with single blanks. `others` are lines without a key."""

    board: int | None = None
    chip: int | None = None
    values: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    of_controller: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.values and not self.others


@dataclass(slots=True)
class _Section:
    """The lines of one NPU."""

    board: int | None = None
    chip_count: int | None = None
    chip_follows: bool | None = None  # None: no `Chip ID` was seen yet
    open: Block = field(default_factory=Block)
    done: list[Block] = field(default_factory=list)

    def take_other(self, line: str) -> None:
        if line and not messages.is_noise(line):
            self.open.others.append(line)

    def close(self) -> None:
        if not self.open.is_empty or self.open.chip is not None:
            self.done.append(self.open)
        self.open = Block(self.board)

    def blocks(self) -> Iterator[Block]:
        """What stands after the last `Chip ID` of a command that puts it last was cut off before its own."""
        cut_off = self.chip_follows is True or (self.chip_follows is None and (self.chip_count or 0) > 1)
        if not cut_off:
            self.close()
        yield from self.done


def blocks_of(text: str) -> Iterator[Block]:
    """Blocks of chips and of controllers, in the order of the text."""
    section = _Section()
    for line in text.lstrip("\ufeff").split("\n"):
        entry = key_value(line)
        if entry is None:
            if 0 < len(line) <= _LINE_LIMIT and len(section.open.others) < _MOST_OTHERS:
                section.take_other(line.strip())
            continue
        key, value = entry
        if key == _NPU:
            yield from section.blocks()
            board = cells.count(value)
            section = _Section(board, open=Block(board))
        else:
            _take(section, key, value)
    yield from section.blocks()


def _take(section: _Section, key: str, value: str) -> None:
    if key == _CHIP:
        _take_chip(section, value)
    elif key == _CHIP_NAME and value.casefold() in CONTROLLERS:
        if section.chip_follows:
            section.open.of_controller = True
            section.close()
            return
        if section.open.values:
            section.close()
        section.open.of_controller = True
    elif key in _HEADINGS:
        if key == _CHIP_COUNT and section.open.is_empty:
            section.chip_count = cells.count(value)
        elif key == _CHIP_COUNT:  # `-t board` prints it last, as one of the board's facts
            section.open.values.setdefault(key, value)
    else:
        section.open.values.setdefault(key, value)


def _take_chip(section: _Section, value: str) -> None:
    if section.chip_follows is None:
        section.chip_follows = not section.open.is_empty
    chip = cells.count(value)
    if section.chip_follows:
        section.open.chip = chip
        section.close()
    else:
        section.close()
        section.open = Block(section.board, chip)


def key_value(line: str) -> tuple[str, str] | None:
    """A key in small letters with single blanks, and its value. None: the line is not one such pair."""
    if len(line) > _LINE_LIMIT:
        return None
    key, colon, value = line.partition(":")
    folded = " ".join(key.casefold().split())
    if not colon or not folded or folded == _PROCESS:
        return None
    return folded, value.strip()


def chips_of(text: str) -> Iterator[Block]:
    """The blocks of chips that have values."""
    return (block for block in blocks_of(text) if not block.of_controller and block.values)


def first_of(values: Mapping[str, str], *keys: str) -> str | None:
    """The value of the first of these keys that is there."""
    return next((values[key] for key in keys if key in values), None)
