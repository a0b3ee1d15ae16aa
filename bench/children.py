"""Processes under measurement."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.effort import Effort
from bench.peers import PEERS, Peer
from bench.scraper import ScrapeFailed, Scraper
from bench.sources import NotObtained

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SCHEDULED = 2  # the kind of clock, in the id that clock_getcpuclockid(3) makes of a process id
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SLOW_SECONDS = 30.0
AGENT = str(Path(sys.executable).with_name("accelscope"))


class Child:
    """A started exporter."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        terminal: int | None = None,
    ) -> None:
        """What it prints goes to a file in the folder, or to a terminal."""
        self.name = name
        log, self._log = tempfile.mkstemp(dir=folder)
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=log if terminal is None else terminal,
            stderr=log if terminal is None else terminal,
        )
        os.close(log)

    def wait_for_page(self, scraper: Scraper, shows: bytes = b"") -> float:
        """Seconds from the process's start to the first page, or the first that shows this; where something
        is looked for, the scraper must not ask for compression. Raises RuntimeError."""
        lacks = "a page"
        while True:
            pause = 0.001
            with contextlib.suppress(OSError, ScrapeFailed):
                if shows in scraper.scrape().body:
                    return time.perf_counter() - self.started
                lacks, pause = "a device in its page", 0.02  # each look costs it CPU time
            self.check()
            if time.perf_counter() - self.started > _SLOW_SECONDS:
                raise RuntimeError(
                    f"{self.name} has not {lacks} after {_SLOW_SECONDS:g} s: {self._last_words()}"
                )
            time.sleep(pause)

    def check(self) -> None:
        """Raises RuntimeError where it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.name} ended at once: {self._last_words()}")

    def rss_bytes(self) -> int:
        return int(self._file("statm").split()[1]) * _PAGE_BYTES

    def peak_bytes(self) -> int:
        """The most that was resident at any time."""
        [line] = [line for line in self._file("status").splitlines() if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024

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
    refused: Mapping[str, str] = field(default_factory=dict)  # why a peer could not be obtained, by its name
    scenes: Sequence[str] = ()  # names of those that exporters are compared in; none: all
    against: Path | None = None  # another checkout with a .venv, whose agent is measured too
    peers: Sequence[Peer] = PEERS

    def missing(self, peer: Peer) -> str:
        """Why it is not there; empty where it is."""
        if peer.source.find() is not None:
            return ""
        return self.refused.get(peer.name) or f"--peers gets it: {peer.source.takes}"

    def environment(self, **more: str) -> dict[str, str]:
        """Without coverage, which would be measured along; with bytecode, as an installed program has it:
        compiling a large module at every start costs time, and memory that is not given back."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE", "PYTHON"))}
        return {**kept, "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"), **more}

    def agent(
        self,
        name: str,
        port: int,
        settings: Mapping[str, str],
        *,
        before: Sequence[str] = (),
        program: str = AGENT,
    ) -> Child:
        """`before` is put before the command."""
        command = [*before, program, "agent", "--exporter-host", "127.0.0.1", "--exporter-port", str(port)]
        command += ["--log-level", "error"]
        for setting, value in settings.items():
            command += [f"--{setting.replace('_', '-')}", value]
        return Child(name, command, self.environment(), self.folder)

    def peer(
        self, peer: Peer, port: int, node: Path, *, interval_seconds: int = 1, before: Sequence[str] = ()
    ) -> Child:
        """Raises NotObtained where it is not there."""
        program = peer.source.find()
        if program is None:
            raise NotObtained(self.missing(peer))
        command = [*before, *peer.command(program, port, node, interval_seconds)]
        return Child(peer.name, command, self.environment(**peer.surroundings(node)), self.folder)


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
