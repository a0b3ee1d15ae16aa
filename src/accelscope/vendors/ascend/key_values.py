"""The text of npu-smi: its messages, and the `key : value` lines of `npu-smi info -t …`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from accelscope.parsing import ParseError
from accelscope.vendors.ascend import quantities
from accelscope.vendors.common.values import first_line, unrecognized_output

# Messages that npu-smi prints instead of values or between them, with a reason for each. Reasons are counted
# in metrics, and doctor has advice for each. Lines that can be ignored have no reason.

_MESSAGE_LIMIT = 500  # no message of the tool is longer

# Errors of DCMI, the library below the tool, by its codes.
_CODES = {
    -8002: "no_permission",
    -8005: "driver_error",  # "internal error": no access to the device files, a driver upgrade and others
    -8006: "driver_timeout",
    -8008: "no_devices",
    -8012: "not_ready",
    -8013: "not_supported",
    -8017: "upgrading",
    -8020: "driver_in_use",
    -8255: "not_supported",
}
_CODE = re.compile(r"\bret(?: is |=)(-?[0-9]{1,6})", re.ASCII)

# Matched at the beginning of a line, the more specific first. None: the reason follows from the error code.
_PATTERNS: tuple[tuple[re.Pattern[str], str | None], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), reason)
    for pattern, reason in (
        (r"dcmi model initialized failed, because the device is used", "driver_in_use"),
        (r"dcmi mod(?:ule|el) initiali[sz]ed? failed", None),
        (r"npu get board type failed", "driver_error"),
        (r"failed to execute npu-smi", None),
        (r"failed to query", "query_failed"),
        (r"failed to get", "query_failed"),
        (r"th(?:is|e) (?:device|chip|npu|card|command) (?:does not|doesn't|is not) support", "not_supported"),
        (r"th(?:is|e) command cannot be executed on a vm or container", "not_supported"),
        (r"there is no npu (?:card|chip)", "no_devices"),
        (r"command or option is not found", "unknown_option"),
        (r"error parameter of", "unknown_option"),
        (r"the parameter is invalid", "unknown_option"),
        (r".{0,40}(?:not permitted|permission denied)", "no_permission"),
        (r".{0,80}must (?:be|have) .{0,40}root", "no_permission"),
        (r".{0,200}error while loading shared libraries", "library_missing"),
        (r".{0,80}npu-smi.{0,20}(?:command not found|: not found|no such file)", "tool_missing"),
    )
)
# Only lines with one of these are matched against the patterns: there may be a million lines.
_SIGNS = re.compile(r"fail|support|no npu|not f|param|permi|root|execut|librar|no such", re.IGNORECASE)
_NOISE = re.compile(r"drvmnggetconsoleloglevel|get pid name failed", re.IGNORECASE)
_INCOMPLETE_DRIVER = re.compile(
    r"\[warning\]\s*the driver package may not be completely installed", re.IGNORECASE
)
# Another program of this name monitors the NPUs in AMD's Ryzen processors.
_OTHER_TOOL = re.compile(r"xdna|ryzen|\bamd\b", re.IGNORECASE)
_OTHER_TOOL_WITHIN = 4000  # characters


@dataclass(frozen=True, slots=True)
class Message:
    reason: str
    text: str


def message_of(line: str) -> Message | None:
    if _SIGNS.search(line, 0, _MESSAGE_LIMIT) is None:
        return None
    text = line.strip("\ufeff \t\r\n")[:_MESSAGE_LIMIT]
    if is_noise(text):
        return None
    for pattern, reason in _PATTERNS:
        if pattern.match(text):
            return Message(reason or _reason_of_code(text), text)
    return None


def is_noise(line: str) -> bool:
    """Whether npu-smi or its library prints this line besides valid values."""
    return _NOISE.match(line.strip("\ufeff \t\r")) is not None


def messages_in(text: str) -> Iterator[Message]:
    for line in text.split("\n"):
        message = message_of(line)
        if message is not None:
            yield message


def driver_is_incomplete(text: str) -> bool:
    """Whether the tool warns after its table that the driver's installation is incomplete."""
    return _INCOMPLETE_DRIVER.search(text[-4000:]) is not None


def no_values_error(text: str, tool: str) -> ParseError:
    """Why an output contains no values."""
    message = next(messages_in(text), None)
    if message is not None:
        return ParseError(message.reason, message.text)
    if _OTHER_TOOL.search(text[:_OTHER_TOOL_WITHIN]):
        return ParseError("other_tool", f"this npu-smi is for AMD NPUs, not for Ascend: {first_line(text)}")
    return unrecognized_output(text, tool)


def _reason_of_code(text: str) -> str:
    code = _CODE.search(text)
    return _CODES.get(int(code[1]), "driver_error") if code else "driver_error"


# `key : value` lines, divided into blocks of one chip each.
#
# In some commands `Chip ID : n` comes before the values of its chip, in others after them. The position of
# the first one shows which. The block of the board's controller (MCU) has the keys of a chip but belongs to
# none.

CONTROLLERS = frozenset({"mcu", "3559"})  # chips of the board that are not NPUs

_LINE_LIMIT = 2000
_MOST_OTHERS = 100_000  # lines of a block
_NPU, _CHIP, _CHIP_COUNT, _CHIP_NAME = "npu id", "chip id", "chip count", "chip name"
_PROCESS = "process id"  # starts a line of several pairs
_HEADINGS = frozenset({_CHIP_COUNT, "npu name"})  # before the first chip


@dataclass(slots=True)
class Block:
    """Keys are in lower case with single blanks. `others` are lines without a key."""

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
    chip_follows: bool | None = None  # whether `Chip ID` follows the values; None before the first one
    open: Block = field(default_factory=Block)
    done: list[Block] = field(default_factory=list)

    def take_other(self, line: str) -> None:
        if line and not is_noise(line):
            self.open.others.append(line)

    def close(self) -> None:
        if not self.open.is_empty or self.open.chip is not None:
            self.done.append(self.open)
        self.open = Block(self.board)

    def blocks(self) -> Iterator[Block]:
        """If `Chip ID` follows the values, values after the last one are truncated and belong to no chip."""
        truncated = self.chip_follows is True or (self.chip_follows is None and (self.chip_count or 0) > 1)
        if not truncated:
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
            board = quantities.count(value)
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
            section.chip_count = quantities.count(value)
        elif key == _CHIP_COUNT:  # `-t board` prints it last, as a value of the board
            section.open.values.setdefault(key, value)
    else:
        section.open.values.setdefault(key, value)


def _take_chip(section: _Section, value: str) -> None:
    if section.chip_follows is None:
        section.chip_follows = not section.open.is_empty
    chip = quantities.count(value)
    if section.chip_follows:
        section.open.chip = chip
        section.close()
    else:
        section.close()
        section.open = Block(section.board, chip)


def key_value(line: str) -> tuple[str, str] | None:
    """The key in lower case with single blanks, and its value. None if the line is not such a pair."""
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
    """The value of the first of these keys that exists."""
    return next((values[key] for key in keys if key in values), None)
