"""`amd-smi process --json` (and its text form): the processes of every GPU."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from accelscope.model import Process
from accelscope.parsing.parsed import Parsed
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.amd import messages, quantities, trees
from accelscope.vendors.amd.trees import Tree
from accelscope.vendors.common.values import program_name

PROCESS = "amd-smi process"

_NOBODY = "no running processes"
_LISTS = ("process_list", "process_info", "processes")


def parse_process(text: str) -> Parsed:
    rejected = Rejections()
    entries, error = trees.gpus(text, rejected)
    entries = [entry for entry in entries if any(key in entry for key in _LISTS)]
    if not entries and error is None:
        error = messages.no_reading(text, PROCESS)
    found: dict[tuple[int, int], ListedProcess] = {}
    for entry in entries:
        index = quantities.count(quantities.text_of(entry["gpu"]) or "")
        if index is None:
            rejected.add(f"gpu: {str(entry['gpu'])[:100]}", "no_identity")
            continue
        for info in _infos(entry, rejected):
            listed = _listed(info, index)
            if listed is None:
                rejected.add(f"pid: {str(info.get('pid'))[:100]}", "not_a_process")
            else:
                found[index, listed.process.pid] = listed
    return Parsed(processes=with_memory(list(found.values())), error=error, rejected=rejected.listed())


class ListedProcess:
    """A process under one GPU. `on_device` is the memory that the compute driver counts on that GPU.
    `in_all` is what the process holds through the graphics driver: the same sum under each of its GPUs."""

    __slots__ = ("in_all", "on_device", "process")

    def __init__(self, process: Process, on_device: int | None, in_all: int | None) -> None:
        self.process = process
        self.on_device = on_device
        self.in_all = in_all


def with_memory(listed: list[ListedProcess]) -> tuple[Process, ...]:
    """The memory of each process on each GPU. Where the tool gives only the sum over all GPUs, that is the
    memory on the GPU of a process that has one; for several GPUs nothing says how it is divided."""
    gpus = Counter(entry.process.pid for entry in listed)
    processes = []
    for entry in listed:
        memory = entry.on_device
        if memory is None and gpus[entry.process.pid] == 1:
            memory = entry.in_all
        processes.append(replace(entry.process, memory_bytes=memory))
    return tuple(processes)


def _infos(entry: Tree, rejected: Rejections) -> Iterator[Tree]:
    """Newer tools wrap each process in `process_info`, older ones do not; one that finds nobody says so in
    words where a process would stand."""
    listed = next(entry[key] for key in _LISTS if key in entry)
    for item in listed if isinstance(listed, list) else [listed]:
        info = item.get("process_info", item) if isinstance(item, dict) else item
        if isinstance(info, dict):
            yield info
        elif isinstance(info, str) and quantities.absence(info) is None and _NOBODY not in info.casefold():
            rejected.add(info, "not_a_process")


def _listed(info: Tree, index: int) -> ListedProcess | None:
    pid = quantities.count(quantities.text_of(info.get("pid")) or "")
    if not pid:
        return None
    process = Process(
        pid=pid,
        device_index=index,
        name=program_name(quantities.text_of(info.get("name")) or "", quantities.absence),
    )
    on_device = quantities.text_of(info.get("mem_usage", info.get("mem")))
    in_all = quantities.text_of(trees.at(info, "memory_usage.vram_mem"))
    return ListedProcess(
        process, quantities.memory(on_device or ""), None if in_all is None else quantities.memory(in_all)
    )
