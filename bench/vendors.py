"""What one collection of each vendor costs, beside the same tools run and the same files read, bare."""

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

from accelscope.agent.settings import AgentSettings
from accelscope.config import make
from accelscope.model import Vendor
from accelscope.simulate import SimulatedNode, load_node
from accelscope.vendors.common.contract import Reader, ReaderOptions, open_reader
from bench.children import Workshop
from bench.contracts import Outcome
from bench.tables import Table, ms, times

NODES = {
    Vendor("nvidia"): "nvidia-h100x8",
    Vendor("amd"): "amd-mi300x8",
    Vendor("ascend"): "ascend-910b-x8",
    Vendor("furiosa"): "furiosa-rngd",
}
_TOOLS_BESIDE = (Vendor("amd"), Vendor("ascend"))
_CHUNK = 65536
_QUIET_SECONDS = 0.5  # without a tick of CPU: nothing runs in the background any more
_IDLE_CPU_SECONDS = 0.005
_SLOW_SECONDS = 60.0
_COLUMNS = ("reader CPU ms", "bare CPU ms", "CPU", "reader wall ms", "bare wall ms", "wall")
Program = tuple[tuple[str, ...], Mapping[str, str]]  # command line and environment


@dataclass
class _Record:
    """What a pass asked the machine for: the interpreter tells of each open and each program."""

    folder: str = ""
    files: list[str] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)

    def note(self, event: str, arguments: Sequence[object]) -> None:
        if not self.folder:
            return
        if event == "open" and str(arguments[0]).startswith(self.folder):
            self.files.append(str(arguments[0]))
        elif event == "subprocess.Popen" and isinstance(arguments[1], Sequence):
            environment = arguments[3] if isinstance(arguments[3], Mapping) else os.environ
            self.programs.append((tuple(str(word) for word in arguments[1]), environment))


_record = _Record()


@dataclass(frozen=True, slots=True)
class _Spent:
    """Seconds, of this process and of the tools."""

    cpu: float
    wall: float


def read_each_vendor(workshop: Workshop) -> Outcome:
    sys.addaudithook(_record.note)
    table = Table(
        "One collection of each vendor",
        ("node", "devices", "files", "tool runs", *_COLUMNS),
        notes=(
            "A node's first row is an ordinary collection; where slow tools run beside the collections, the "
            "row `with tools` runs those too. NVIDIA is read through nvidia-smi here; its library has a "
            "table of its own. Bare: the same files opened and read, the same tools run, nothing made of it. "
            "CPU of this process and of the tools; medians, and their ratio. Files of a simulated node are "
            "plain ones; a driver that has to ask the card for each may take longer.",
        ),
    )
    for vendor, name in NODES.items():
        node = SimulatedNode(load_node(name), workshop.folder / f"vendor-{vendor}")
        node.build()
        node.write(at=100.0)
        rounds = {name: 3600.0}
        if vendor in _TOOLS_BESIDE:
            rounds[f"{name}, with tools"] = 0.0
        for title, interval in rounds.items():
            _measure(
                table, title, node, vendor=vendor, interval=interval, repeats=workshop.effort.collections
            )
    return Outcome([table])


def _measure(
    table: Table, title: str, node: SimulatedNode, *, vendor: Vendor, interval: float, repeats: int
) -> None:
    settings = make(AgentSettings, node.agent_settings())
    tools = {**settings.vendor_settings, "nvml_library": str(node.folder / "no-library")}
    reader = open_reader(vendor, ReaderOptions(settings.paths, tools, tool_interval_seconds=interval))
    devices = _pass(reader)  # what is asked once for good, such as identities
    _wait_until_quiet()
    _record.files, _record.programs, _record.folder = [], [], str(node.folder)
    _pass(reader)
    _record.folder = ""
    files, programs = _record.files, _record.programs
    works: tuple[Callable[[], object], ...] = (lambda: _pass(reader), lambda: _bare(files, programs))
    taken: tuple[list[_Spent], list[_Spent]] = ([], [])
    for _ in range(max(3, repeats // 4)):  # in turns, so that a busy moment of the machine meets both
        for work, spent in zip(works, taken, strict=True):
            spent.append(_spent_on(work))
    reader.close()
    cells = [str(devices), str(len(files)), str(len(programs))]
    for values in (
        [[each.cpu for each in spent] for spent in taken],
        [[each.wall for each in spent] for spent in taken],
    ):
        ours, bare = map(statistics.median, values)
        cells += [ms(ours), ms(bare), times(ours / bare)]
    table.add(title, *cells)


def _pass(reader: Reader) -> int:
    keys = reader.survey().keys
    for key in keys:
        reader.read(key)
    return len(keys)


def _bare(files: Sequence[str], programs: Sequence[Program]) -> None:
    for path in files:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue  # looked for and not there, as by the reader
        os.read(descriptor, _CHUNK)
        os.close(descriptor)
    for program, environment in programs:
        subprocess.run(
            program,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_SLOW_SECONDS,
        )


def _spent_on(work: Callable[[], object]) -> _Spent:
    cpu, wall = _cpu_seconds(), time.perf_counter()
    work()
    return _Spent(_cpu_seconds() - cpu, time.perf_counter() - wall)


def _wait_until_quiet() -> None:
    """A reader's first pass starts what runs beside the collections, once for as long as this measures."""
    deadline = time.monotonic() + _SLOW_SECONDS
    while time.monotonic() < deadline:
        before = _cpu_seconds()
        time.sleep(_QUIET_SECONDS)
        if _cpu_seconds() - before < _IDLE_CPU_SECONDS:
            return
    raise RuntimeError(f"what runs in the background is not done after {_SLOW_SECONDS:g} s")


def _cpu_seconds() -> float:
    spent = (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in spent)
