"""What the agent's memory consists of: resident memory and CPU time by imported package."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accelscope.vendors.nvidia.nvml_library import BINDING_NAME
from bench.children import Workshop
from bench.contracts import Outcome
from bench.nodes import usual_node
from bench.tables import Table, mib, ms

_SHOWN = 4  # modules of a package that are named
_COLLECTIONS = 3

# Makes an agent as the command does and prints by how much each module grew the process, without the modules
# that it imported in turn.
_PROGRAM = """
import json, os, sys, time
from importlib.machinery import ExtensionFileLoader, SourceFileLoader

def used():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"), time.process_time()

modules, stack = {}, []

def measure(loader):
    run = loader.exec_module
    def exec_module(self, module):
        memory, cpu = used()
        stack.append([0, 0.0])
        try:
            run(self, module)
        finally:
            memory, cpu = (now - before for now, before in zip(used(), (memory, cpu)))
            inner = stack.pop()
            modules[module.__spec__.name] = memory - inner[0], cpu - inner[1]
            if stack:
                stack[-1][0] += memory
                stack[-1][1] += cpu
    loader.exec_module = exec_module

measure(SourceFileLoader)
measure(ExtensionFileLoader)
python = used()
import accelscope.cli.main, accelscope.cli.agent
from accelscope.agent.app import Agent
from accelscope.agent.settings import AgentSettings
from accelscope.config import load
given = json.loads(sys.argv[1])
agent = Agent(load(AgentSettings, given, {}), given, {})
for _ in range(int(sys.argv[2])):
    agent.collector.collect()
print(json.dumps({"python": python, "all": used(), "modules": modules}))
"""


@dataclass(frozen=True, slots=True)
class _Map:
    """Of one process: (bytes, CPU seconds)."""

    python: tuple[float, float]
    whole: tuple[float, float]
    modules: Mapping[str, tuple[float, float]]


def map_memory(workshop: Workshop) -> Outcome:
    with usual_node(workshop.folder / "memory-map") as node:
        settings = json.dumps(node.agent_settings())
        maps = [_measure(workshop, settings) for _ in range(workshop.effort.starts)]
    table = Table("Memory by import", ("part", "modules", "MiB", "CPU ms", "largest modules, KiB"))
    table.add("Python itself", "", *_cells(each.python for each in maps), "")
    names = sorted({name for each in maps for name in each.modules})
    parts: dict[str, list[str]] = {}
    for name in names:
        parts.setdefault(_part(name), []).append(name)
    sums = {part: [_sum(each, members) for each in maps] for part, members in parts.items()}
    for part in sorted(parts, key=lambda part: -_middle(sums[part])):
        members = {name: _middle(_sum(each, [name]) for each in maps) for name in parts[part]}
        largest = sorted(members, key=lambda name: -members[name])[:_SHOWN]
        named = ", ".join(f"{name} {members[name] / 1024:.0f}" for name in largest if members[name])
        table.add(part, str(len(members)), *_cells(sums[part]), named)
    rest = [
        (each.whole[0] - each.python[0] - loaded[0], each.whole[1] - each.python[1] - loaded[1])
        for each in maps
        for loaded in [_sum(each, names)]
    ]
    table.add(f"objects of {_COLLECTIONS} collections, threads, driver", "", *_cells(rest), "")
    table.add("all", str(len(names)), *_cells(each.whole for each in maps), "")
    table.notes = (
        "Resident memory by which the process grew while a module was executed, without the modules that it "
        "imported; whole pages, so that small modules show none. 8 H100 with 4 processes each, no scrapes, "
        f"no server; medians of {len(maps)} processes.",
    )
    return Outcome([table])


def _measure(workshop: Workshop, settings: str) -> _Map:
    command = [sys.executable, "-c", _PROGRAM, settings, str(_COLLECTIONS)]
    printed = subprocess.run(
        command, env=workshop.environment(), check=True, capture_output=True, text=True, timeout=60
    ).stdout
    found = json.loads(printed)
    return _Map(tuple(found["python"]), tuple(found["all"]), found["modules"])


def _part(module: str) -> str:
    if module == BINDING_NAME:
        return "nvidia-ml-py"
    top, _, rest = module.partition(".")
    return f"{top}.{rest.partition('.')[0]}".rstrip(".") if top == "accelscope" else "standard library"


def _sum(one: _Map, modules: Iterable[str]) -> tuple[float, float]:
    found = [one.modules[name] for name in modules if name in one.modules]
    return sum(memory for memory, _ in found), sum(cpu for _, cpu in found)


def _middle(values: Iterable[tuple[float, float]]) -> float:
    return statistics.median(memory for memory, _ in values)


def _cells(values: Iterable[tuple[float, float]]) -> tuple[str, str]:
    memories, cpus = zip(*values, strict=True)
    return mib(statistics.median(memories)), ms(statistics.median(cpus))
