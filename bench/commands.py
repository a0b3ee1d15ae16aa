"""What each command costs before it does anything, and until it has done something useful, beside a Python
that does nothing."""

import contextlib
import os
import pty
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from accelscope.config.settings import flag_name, key_name
from bench.children import AGENT, Child, Workshop, free_port, running
from bench.contracts import Outcome
from bench.fleet_process import Api
from bench.nodes import make_node
from bench.scraper import Scraper
from bench.tables import Table, mib, ms, times

_SLOW_SECONDS = 60.0
_RATIO = "to Python's"
_PAUSE_SECONDS = 0.002
_NODE = {
    "node": "bench",
    "nvidia": {"devices": [{"model": "h100-80gb", "count": 8}]},
    "furiosa": {"devices": [{"model": "warboy"}]},
    "processes": [{"name": "worker", "vendor": "nvidia", "devices": "all", "memory": "64MiB"}],
}
_SAVED = "index, uuid, name\n0, GPU-1, NVIDIA H100\n"
_PAGE = """\
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 40
"""

# Runs a command to its end and tells seconds, peak memory in KiB and exit code. A child's peak counts from
# that of the process that started it, so this one is as small as can be.
_TO_ITS_END = """
import os, sys, time
nothing = os.open(os.devnull, os.O_RDWR)
actions = [(os.POSIX_SPAWN_DUP2, nothing, to) for to in (0, 1, 2)]
began = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=actions)
status, usage = os.wait4(child, 0)[1:]
print(time.perf_counter() - began, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class Use:
    """Of a command: what is measured as the first useful thing."""

    command: str
    until: str
    measure: Callable[[], Cost]


@dataclass(frozen=True, slots=True)
class Turn:
    """Of one command, and beside it of a Python that does nothing: what else the machine does meanwhile falls
    on both."""

    nothing: Cost
    imports: float  # seconds
    help: float  # seconds
    useful: Cost


def commands(workshop: Workshop) -> Outcome:
    bench = _Bench(workshop)
    with bench.uses() as uses:
        bench.turns(uses)  # compiles bytecode and fills the machine's caches
        rounds = [bench.turns(uses) for _ in range(workshop.effort.starts)]
    figures = ("imports, ms", "--help, ms", _RATIO, "useful, ms", _RATIO, "peak, MiB", _RATIO)
    table = Table("Cost of every command", ("command", "until", *figures), names=2)
    every = [turn for each in rounds for turn in each]
    idle = statistics.median(turn.nothing.seconds for turn in every)
    floor = statistics.median(turn.nothing.peak_bytes for turn in every)
    table.add("python -c pass", "it has ended", "", "", "", ms(idle), times(1), mib(floor), times(1))
    for use, turns in zip(uses, zip(*rounds, strict=True), strict=True):
        told = statistics.median(turn.help for turn in turns)
        useful = statistics.median(turn.useful.seconds for turn in turns)
        peak = statistics.median(turn.useful.peak_bytes for turn in turns)
        table.add(
            use.command,
            use.until,
            ms(statistics.median(turn.imports for turn in turns)),
            ms(told),
            times(told / idle),
            ms(useful),
            times(useful / idle),
            mib(peak),
            times(peak / floor),
        )
    table.notes = (
        f"Medians of {workshop.effort.starts} runs with bytecode there, on a simulated node with eight GPUs "
        "and an NPU; the fleet reads a cluster of two nodes. Imports are all that --help loads, as -X "
        "importtime counts them. Peak is the most resident memory until the useful thing was there.",
    )
    return Outcome([table])


class _Bench:
    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._folder = Path(tempfile.mkdtemp(prefix="commands-", dir=workshop.folder))
        self._environment = workshop.environment(TERM="xterm", COLUMNS="120")

    def turns(self, uses: Sequence[Use]) -> list[Turn]:
        return [
            Turn(
                nothing=self.to_its_end([sys.executable, "-c", "pass"]),
                imports=self._imports([AGENT, use.command.split()[0], "--help"]),
                help=self.to_its_end([AGENT, use.command.split()[0], "--help"]).seconds,
                useful=use.measure(),
            )
            for use in uses
        ]

    def _imports(self, command: Sequence[str]) -> float:
        """Seconds."""
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *command],
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=_SLOW_SECONDS,
        )
        cells = (line.removeprefix("import time:").split("|") for line in done.stderr.splitlines())
        return sum(int(cell[0]) for cell in cells if len(cell) == 3 and cell[0].strip().isdecimal()) / 1e6

    def to_its_end(self, command: Sequence[str], codes: Sequence[int] = (0,)) -> Cost:
        runner = [sys.executable, "-I", "-S", "-c", _TO_ITS_END]
        done = subprocess.run(
            [*runner, *command],
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=_SLOW_SECONDS,
        )
        seconds, kibibytes, code = done.stdout.split()
        if int(code) not in codes:
            raise RuntimeError(f"{' '.join(command)} ended with {code}")
        return Cost(float(seconds), int(kibibytes) * 1024)

    @contextlib.contextmanager
    def uses(self) -> Iterator[list[Use]]:
        """In the order of the commands' names."""
        node = make_node(self._folder / "node", _NODE)
        settings = self._folder / "agent.yaml"
        named = {key_name(name): value for name, value in node.agent_settings().items()}
        settings.write_text(yaml.safe_dump(named))
        here = ["--config-file", str(settings)]
        saved = self._folder / "saved.csv"
        saved.write_text(_SAVED)
        page = self._folder / "page.prom"
        page.write_text(_PAGE)
        plugin = ["device-plugin", "--plugin-dir", str(self._folder), "--pod-resources-socket", ""]
        for name in ("sys_root", "dev_root"):
            plugin += [flag_name(name), node.agent_settings()[name]]
        clusters = self._folder / "clusters"
        words = [AGENT, "simulate", "fleet", str(clusters), "--clusters", "1", "--nodes", "2"]
        simulator = Child("simulator", words, self._environment, self._folder)
        with running(simulator):
            self._wait(simulator, (clusters / "faults.yaml").exists)
            yield [
                Use("agent", "first page", lambda: self._page(["agent", *here])),
                Use("capture", "archive", lambda: self._capture(here)),
                Use("compare", "report", lambda: self._accelscope("compare", str(page), str(page))),
                Use("completion bash", "script", lambda: self._accelscope("completion", "bash")),
                Use(
                    "device-plugin", "page with a device", lambda: self._page(plugin, b"beta.furiosa.ai/npu")
                ),
                Use("discover", "labels", lambda: self._accelscope("discover", *here)),
                Use("doctor", "report", lambda: self._accelscope("doctor", *here, codes=(0, 1, 2))),
                Use("files chart", "path", lambda: self._accelscope("files", "chart")),
                Use("fleet", "answer with devices", lambda: self._fleet(clusters / "clusters.yaml")),
                Use(
                    "parse", "document", lambda: self._accelscope("parse", "nvidia-smi-query-gpu", str(saved))
                ),
                Use("simulate list", "list", lambda: self._accelscope("simulate", "list")),
                Use("top --once", "table", lambda: self._accelscope("top", "--once", *here)),
                Use("top", "screen with a device", lambda: self._screen(["top", *here], b"H100")),
            ]

    def _accelscope(self, *words: str, codes: Sequence[int] = (0,)) -> Cost:
        return self.to_its_end([AGENT, *words], codes)

    def _capture(self, here: Sequence[str]) -> Cost:
        archive = self._folder / "capture.tar.gz"
        cost = self._accelscope("capture", *here, "--output", str(archive))
        archive.unlink()
        return cost

    def _page(self, words: Sequence[str], shows: bytes = b"") -> Cost:
        port = free_port()
        where = ["--exporter-host", "127.0.0.1", "--exporter-port", str(port), "--log-level", "error"]
        child = Child(words[0], [AGENT, *words, *where], self._environment, self._folder)
        with running(child):
            seconds = child.wait_for_page(Scraper(port, compressed=False), shows)
            return Cost(seconds, child.peak_bytes())

    def _fleet(self, clusters: Path) -> Cost:
        port = free_port()
        words = [
            AGENT,
            "fleet",
            "--clusters-file",
            str(clusters),
            "--listen-port",
            str(port),
            "--log-level",
            "error",
        ]
        child = Child("fleet", words, self._environment, self._folder)

        def has_devices() -> bool:
            with contextlib.suppress(OSError), contextlib.closing(Api(port)) as api:
                return bool(api.ask("/api/v1/summary")[1]["total"]["devices"])
            return False

        with running(child):
            self._wait(child, has_devices)
            return Cost(time.perf_counter() - child.started, child.peak_bytes())

    def _wait(self, child: Child, condition: Callable[[], bool]) -> None:
        while not condition():
            child.check()
            if time.perf_counter() - child.started > _SLOW_SECONDS:
                raise RuntimeError(f"{child.name} is not ready after {_SLOW_SECONDS:g} s")
            time.sleep(_PAUSE_SECONDS)

    def _screen(self, words: Sequence[str], shows: bytes) -> Cost:
        outside, inside = pty.openpty()
        child = Child(words[0], [AGENT, *words], self._environment, self._folder, terminal=inside)
        os.close(inside)
        try:
            with running(child):
                shown = bytearray()

                def is_shown() -> bool:
                    if select.select([outside], [], [], 0)[0]:
                        shown.extend(os.read(outside, 65536))
                    return shows in shown

                self._wait(child, is_shown)
                return Cost(time.perf_counter() - child.started, child.peak_bytes())
        finally:
            os.close(outside)
