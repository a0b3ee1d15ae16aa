"""Processes under measurement."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.effort import Effort
from bench.scraper import ScrapeFailed, Scraper

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SCHEDULED = 2  # the kind of clock, in the id that clock_getcpuclockid(3) makes of a process id
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SLOW_SECONDS = 30.0
AGENT = str(Path(sys.executable).with_name("accelscope"))


class Child:
    """A started exporter."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path
    ) -> None:
        """What it prints goes to a file in the folder."""
        self.name = name
        log, self._log = tempfile.mkstemp(dir=folder)
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        os.close(log)

    def wait_for_page(self, scraper: Scraper) -> float:
        """Seconds from the process's start to the first page."""
        while True:
            try:
                scraper.scrape()
            except (OSError, ScrapeFailed):
                self.check()
                if time.perf_counter() - self.started > _SLOW_SECONDS:
                    raise RuntimeError(
                        f"{self.name} serves no page after {_SLOW_SECONDS:g} s: {self._last_words()}"
                    ) from None
                time.sleep(0.001)
            else:
                return time.perf_counter() - self.started

    def check(self) -> None:
        """Raises RuntimeError where it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended at once: {self._last_words()}")

    def rss_bytes(self) -> int:
        return int(self._file("statm").split()[1]) * _PAGE_BYTES

    def private_bytes(self) -> int:
        """What would be free if this process alone ended."""
        return 1024 * sum(
            int(line.split()[1])
            for line in self._file("smaps_rollup").splitlines()
            if line.startswith("Private_")
        )

    def cpu_seconds(self) -> float:
        """CPU time of all threads, also those that ended, and of tools that were run: the process's own to
        the nanosecond, that of its children to a tick."""
        own = time.clock_gettime(~self._process.pid << 3 | _SCHEDULED)
        children = self._file("stat").rpartition(")")[2].split()[13:15]
        return own + sum(map(int, children)) / _TICKS_PER_SECOND

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self.go_on()
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _file(self, name: str) -> str:
        return Path(f"/proc/{self._process.pid}/{name}").read_text()

    def _last_words(self) -> str:
        return Path(self._log).read_text(errors="replace").strip()[-500:]


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where a run of the benchmark puts its things, and how long it measures."""

    folder: Path
    effort: Effort

    def environment(self, **more: str) -> dict[str, str]:
        """Without coverage, which would be measured along; with bytecode, as an installed program has it:
        compiling a large module at every start costs time, and memory that is not given back."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE", "PYTHON"))}
        return {**kept, "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"), **more}

    def agent(self, name: str, port: int, settings: Mapping[str, str]) -> Child:
        command = [AGENT, "agent", "--exporter-host", "127.0.0.1", "--exporter-port", str(port)]
        command += ["--log-level", "error"]
        for setting, value in settings.items():
            command += [f"--{setting.replace('_', '-')}", value]
        return Child(name, command, self.environment(), self.folder)

    def nvitop_exporter(self, port: int, node: Path, *, interval_seconds: float) -> Child:
        command = [sys.executable, "-m", "nvitop_exporter", "--hostname", "node", "--port", str(port)]
        command += ["--interval", str(interval_seconds)]
        environment = self.environment(LD_LIBRARY_PATH=str(node / "lib"))
        return Child("nvitop-exporter", command, environment, self.folder)

    def node_exporter(self, port: int) -> Child:
        if shutil.which("prometheus-node-exporter") is None:
            raise SystemExit("bench: prometheus-node-exporter is not installed; make bench installs it")
        command = ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"]
        return Child("node_exporter", command, self.environment(), self.folder)


@contextlib.contextmanager
def running(child: Child) -> Iterator[Child]:
    """Ends it, whatever happens."""
    try:
        yield child
    finally:
        child.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
