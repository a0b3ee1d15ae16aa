"""CPU time of one collection, beside the bare driver calls or the bare runs of the tool."""

import os
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.children import Workshop, free_port, running
from bench.compiling import compile_program
from bench.contracts import Contract, Outcome
from bench.nodes import CALL_COST_MICROSECONDS, usual_node
from bench.recording import PASSES, record
from bench.scraper import Scraper, series_of
from bench.tables import Table, mib, ms, times

_SHORTEST_INTERVAL_SECONDS = 0.1
_NO_LIBRARY = "/nonexistent/libnvidia-ml.so.1"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one collection; seconds."""

    cpu: float
    wall: float
    page_bytes: int
    series: int
    rss_bytes: int


def collect(workshop: Workshop) -> Outcome:
    effort = workshop.effort
    with usual_node(workshop.folder / "collection") as node:
        settings = node.agent_settings()
        library = settings["nvml_library"]
        call_list = workshop.folder / "calls"
        recorded = record(library)
        call_list.write_text("".join(f"{call}\n" for call in recorded.calls))
        program = compile_program("driver_calls", workshop.folder, "-ldl")
        loops, agents = [], []
        for _ in range(effort.repeats):  # in turns, so that a busy moment of the machine meets both
            seconds, refused = _loop(program, library, call_list, effort.collections)
            assert refused == recorded.refused, "the C program does not make the calls that were recorded"
            loops.append(seconds)
            agents.append(cost_of_collection(workshop, settings))
        tool_settings = {**settings, "nvml_library": _NO_LIBRARY}
        commands = _commands_of_collection(workshop, tool_settings)
        bare, with_tool = [], []
        for _ in range(effort.repeats):
            bare.append(_bare_runs(commands, max(2, effort.collections // 10)))
            with_tool.append(cost_of_collection(workshop, tool_settings))
    loop, agent = statistics.median(loops), statistics.median(cost.cpu for cost in agents)
    runs, tool = statistics.median(bare), statistics.median(cost.cpu for cost in with_tool)
    table = Table("CPU of one collection", ("what", "CPU ms", "wall ms", "to the bare calls"))
    table.add(f"{len(recorded.calls) // PASSES} NVML calls from C", ms(loop), "", times(1))
    table.add("agent through NVML", ms(agent), ms(_wall(agents)), times(agent / loop))
    table.add(f"{len(commands)} bare runs of nvidia-smi", ms(runs), "", times(1))
    table.add("agent through nvidia-smi", ms(tool), ms(_wall(with_tool)), times(tool / runs))
    table.notes = (
        f"8 devices with 4 processes each; every NVML call burns {CALL_COST_MICROSECONDS} us of CPU, every "
        "run of nvidia-smi 20 ms. The agent's figure is all that it does: reading, /proc, rendering. "
        f"Medians of {effort.repeats} turns of about {effort.collections} collections.",
    )
    return Outcome(
        [table],
        {
            Contract.COLLECTION: (times(agent / loop), agent <= 3 * loop, agent <= 1.5 * loop),
            Contract.TOOL: (times(tool / runs), tool <= 3 * runs, tool <= 1.5 * runs),
        },
    )


def _wall(costs: list[Cost]) -> float:
    return statistics.median(cost.wall for cost in costs)


def cost_of_collection(
    workshop: Workshop, settings: Mapping[str, str], collections: int | None = None
) -> Cost:
    """Mean over some collections of an agent that makes them one after the other."""
    wanted = collections or workshop.effort.collections
    port = free_port()
    # An interval into which a pass over all devices fits: a collection does not wait longer for it.
    interval = max(_SHORTEST_INTERVAL_SECONDS, 2 * _first_pass_seconds(workshop, settings))
    child = workshop.agent("agent", port, {**settings, "collection_interval": f"{interval:.3f}s"})
    scraper = Scraper(port, compressed=False)
    with running(child):
        child.wait_for_page(scraper)
        _wait_for_collections(scraper, 3, interval)  # until everything that is asked once was asked
        before, cpu = _collections(scraper), child.cpu_seconds()
        _wait_for_collections(scraper, before + wanted, interval)
        used, made = child.cpu_seconds() - cpu, _collections(scraper) - before
        page = scraper.scrape().body
        return Cost(
            cpu=used / made,
            wall=_value(page, b"accelscope_collection_duration_seconds"),
            page_bytes=len(page),
            series=series_of(page),
            rss_bytes=child.rss_bytes(),
        )


def _first_pass_seconds(workshop: Workshop, settings: Mapping[str, str]) -> float:
    """What the first pass over the devices takes, which asks for more than later ones."""
    port = free_port()
    child = workshop.agent("agent", port, settings)
    scraper = Scraper(port, compressed=False)
    with running(child):
        child.wait_for_page(scraper)
        return _value(scraper.scrape().body, b"accelscope_collection_duration_seconds")


def _wait_for_collections(scraper: Scraper, count: float, interval: float) -> None:
    while (missing := count - _collections(scraper)) > 0:
        time.sleep(missing * interval)  # asking costs CPU that is not the collection's


def _collections(scraper: Scraper) -> int:
    return int(_value(scraper.scrape().body, b"accelscope_collections_total"))


def _value(page: bytes, name: bytes) -> float:
    """Of a series without labels."""
    start = page.index(b"\n" + name + b" ") + len(name) + 2
    return float(page[start : page.index(b"\n", start)])


def _loop(program: Path, library: str, call_list: Path, collections: int) -> tuple[float, int]:
    """CPU seconds of the calls of one collection, and how many calls of the list did not succeed."""
    command = [str(program), library, str(call_list), str(max(1, collections // PASSES))]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    microseconds, refused = printed.split()
    return float(microseconds) / 1e6 / PASSES, int(refused)


def _commands_of_collection(workshop: Workshop, settings: Mapping[str, str]) -> list[list[str]]:
    """How the agent runs the tool in one collection, told by a tool that takes it down."""
    tool = settings["nvidia_smi_path"]
    taken, listening = workshop.folder / "commands", workshop.folder / "nvidia-smi"
    # One line per run: how often its arguments begin, then the arguments, tab between them.
    listening.write_text(
        f'#!/bin/sh\n{{ printf "%s\\t" "$@"; echo; }} >>{taken}\nexec {shutil.which(tool) or tool} "$@"\n'
    )
    listening.chmod(0o755)
    cost_of_collection(workshop, {**settings, "nvidia_smi_path": str(listening)}, collections=4)
    runs = [line.rstrip("\t").split("\t") for line in taken.read_text().splitlines()]
    # The last run may belong to a collection that was cut off; a whole one lies between two surveys.
    first = next(run for run in runs if run[0].startswith("--query-gpu"))
    places = [place for place, run in enumerate(runs) if run == first]
    whole = runs[places[-2] : places[-1]]
    return [[tool, *arguments] for arguments in whole]


def _bare_runs(commands: list[list[str]], repeats: int) -> float:
    """CPU seconds of the tool's runs of one collection."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(repeats):
        for command in commands:
            with Path(os.devnull).open("wb") as nowhere:
                subprocess.run(command, stdout=nowhere, stderr=nowhere, check=False, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return used / repeats


def describe_cost(cost: Cost) -> tuple[str, ...]:
    return (
        ms(cost.cpu),
        ms(cost.wall),
        str(cost.series),
        str(cost.page_bytes),
        mib(cost.rss_bytes),
    )
