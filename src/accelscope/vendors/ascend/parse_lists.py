"""Lists of npu-smi: the NPUs (`info -l`), the chips with their numbers (`info -m`) and the processes on each
chip with their memory (`info -t proc-mem -i N`).
"""

import re

from accelscope.model import Device, Process, ProcessType
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.ascend import cells, messages
from accelscope.vendors.ascend.draft import AscendDraft
from accelscope.vendors.ascend.key_values import CONTROLLERS, blocks_of, key_value
from accelscope.vendors.common.values import program_name

# `npu-smi info -l`: the NPUs that the driver counts, also those of which it has nothing more to say.

_LIST = "npu-smi info -l"

_MOST_BOARDS = 4096


def parse_list(text: str) -> Parsed:
    """Whether this is such a list. It tells of no chip what a device could be made of."""
    return Parsed(error=None if boards_in(text) else messages.no_reading(text, _LIST))


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


# `npu-smi info -m`: which chip of which NPU has which number in the runtime and in `/dev`.

_MAP = "npu-smi info -m"

_LINE_LIMIT = 1000
_MOST_CHIPS = 4096
_COLUMN = re.compile(r"npu id|slot id|chip id|chip logic id|chip phy-id|chip name|\S+", re.IGNORECASE)


def parse_map(text: str) -> Parsed:
    columns: tuple[str, ...] = ()
    devices: list[Device] = []
    rejected = Rejections()
    for line in text.lstrip("\ufeff").split("\n"):
        bare = line.strip()
        if not bare or len(bare) > _LINE_LIMIT:
            continue
        names = _columns(bare)
        if "npu id" in names:
            columns = names
        elif columns:
            draft = _chip(bare, columns, rejected)
            if draft is not None and len(devices) < _MOST_CHIPS:
                devices.append(draft.device())
                rejected.extend(draft.rejected)
    if not devices:
        return Parsed(error=messages.no_reading(text, _MAP), rejected=rejected.listed())
    return Parsed(devices=tuple(devices), rejected=rejected.listed())


def _columns(line: str) -> tuple[str, ...]:
    """Columns are as wide as their names, which hold single blanks."""
    if not line.casefold().startswith("npu id"):
        return ()
    return tuple(" ".join(match[0].casefold().split()) for match in _COLUMN.finditer(line))


def _chip(line: str, columns: tuple[str, ...], rejected: Rejections) -> AscendDraft | None:
    """The name stands last and may hold blanks."""
    words = line.split(None, len(columns) - 1)
    if len(words) != len(columns):
        message = messages.message_of(line)
        rejected.add(line, message.reason if message else "not_a_row")
        return None
    values = dict(zip(columns, words, strict=True))
    board, chip = cells.count(values["npu id"]), cells.count(values.get("chip id", ""))
    if board is None or ("chip id" in values and chip is None):
        rejected.add(line, "not_a_row")
        return None
    name = values.get("chip name", "")
    if name.strip().casefold() in CONTROLLERS or values.get("chip logic id") == "-":
        return None
    draft = AscendDraft(board=board, chip=chip)
    draft.take("index", values.get("chip logic id"), cells.count, "Chip Logic ID")
    draft.take("physical_id", values.get("chip phy-id"), cells.count, "Chip Phy-ID")
    draft.take("model", name or None, cells.words, "Chip Name")
    return draft


# `npu-smi info -t proc-mem -i N`: the processes on each chip of a board, with their memory.

_PROC_MEM = "npu-smi info -t proc-mem"

_PROCESS = re.compile(
    r"Process id\s*:\s*([0-9]{1,18})\s+Process name\s*:(.{0,300}?)\s*"
    r"Process memory\s*\(MB\)\s*:\s*(\S{0,40})",
    re.IGNORECASE | re.ASCII,
)
_NAME = re.compile(r"\s*Process name\b", re.IGNORECASE)
_NONE = "no process in device"
_MOST_PROCESSES = 100_000


def parse_proc_mem(text: str) -> Parsed:
    """A chip without processes is shown too: the tool looked at it."""
    devices: list[Device] = []
    processes: list[Process] = []
    rejected = Rejections()
    for block in blocks_of(text):
        found = [line for line in block.others if _is_about_processes(line)]
        for line in block.others:
            message = messages.message_of(line)
            if message is not None:
                rejected.add(message.text, message.reason)
        if not found or block.of_controller:
            continue
        is_named = block.board is not None or block.chip is not None
        device = AscendDraft(board=block.board, chip=block.chip).device() if is_named else None
        if device is not None:
            devices.append(device)
        for line in found:
            process = _process(line, device)
            if process is not None and len(processes) < _MOST_PROCESSES:
                processes.append(process)
            elif not line.casefold().startswith(_NONE):
                rejected.add(_without_name(line), "not_a_row" if process is None else "too_many")
    if not devices and not processes and not _says_none(text):
        return Parsed(error=messages.no_reading(text, _PROC_MEM), rejected=rejected.listed())
    return Parsed(devices=tuple(devices), processes=tuple(processes), rejected=rejected.listed())


def _is_about_processes(line: str) -> bool:
    folded = line[:40].casefold()
    return folded.startswith((_NONE, "process id"))


def _without_name(line: str) -> str:
    """What comes after the pid may be a command line, which is not repeated."""
    return _NAME.split(line, 1)[0]


def _says_none(text: str) -> bool:
    return any(line.strip().casefold().startswith(_NONE) for line in text.split("\n"))


def _process(line: str, device: Device | None) -> Process | None:
    match = _PROCESS.match(line)
    if match is None or not int(match[1]):
        return None
    return Process(
        pid=int(match[1]),
        device=device.id if device else None,
        name=program_name(match[2], cells.absence),
        type=ProcessType.COMPUTE,
        memory_bytes=cells.memory(match[3]),
    )
