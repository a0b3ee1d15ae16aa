"""`npu-smi info -t proc-mem -i N`: the processes on each chip of a board, with their memory."""

import re

from accelscope.model import Device, Process, ProcessType
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.readers.ascend import cells, messages
from accelscope.readers.ascend.draft import Draft
from accelscope.readers.ascend.key_values import blocks_of
from accelscope.readers.programs import program_name

TOOL = "npu-smi info -t proc-mem"

_PROCESS = re.compile(
    r"Process id\s*:\s*([0-9]{1,18})\s+Process name\s*:(.{0,300}?)\s*"
    r"Process memory\s*\(MB\)\s*:\s*(\S{0,40})",
    re.IGNORECASE | re.ASCII,
)
_NAME = re.compile(r"\s*Process name\b", re.IGNORECASE)
_NONE = "no process in device"
_MOST_PROCESSES = 100_000


def parse(text: str) -> Parsed:
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
        device = Draft(block.board, block.chip).device() if is_named else None
        if device is not None:
            devices.append(device)
        for line in found:
            process = _process(line, device)
            if process is not None and len(processes) < _MOST_PROCESSES:
                processes.append(process)
            elif not line.casefold().startswith(_NONE):
                rejected.add(_without_name(line), "not_a_row" if process is None else "too_many")
    if not devices and not processes and not _says_none(text):
        return Parsed(error=messages.no_reading(text, TOOL), rejected=rejected.listed())
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
