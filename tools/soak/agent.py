"""The agent under soak, and what is looked at of it."""

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.children import AGENT

from accelscope.model import Snapshot
from accelscope.model.wire import read_snapshot

_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class SoakFailed(Exception):
    """The agent ended, or did not do what it is waited for."""


@dataclass(frozen=True, slots=True)
class Sample:
    rss_bytes: int
    threads: int
    files: int
    series: int
    processes: int  # of devices, as the snapshot has them
    pods: int


class Agent:
    """Asked over HTTPS, each time on a connection of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, trust: ssl.SSLContext, log: Path) -> None:
        self._process, self.port, self._trust, self._log = process, port, trust, log

    def get(self, path: str) -> bytes:
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=_PATIENCE_SECONDS, context=self._trust
        )
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        if answer.status != 200:
            raise SoakFailed(f"{path}: {answer.status} {body[:200]!r}")
        return body

    def snapshot(self) -> Snapshot:
        return read_snapshot(json.loads(self.get("/snapshot")))

    def sample(self) -> Sample:
        snapshot = self.snapshot()
        page = self.get("/metrics")
        own = Path(f"/proc/{self._process.pid}")
        status = (own / "status").read_text()
        return Sample(
            rss_bytes=int((own / "statm").read_text().split()[1]) * _PAGE_BYTES,
            threads=int(next(line for line in status.splitlines() if line.startswith("Threads:")).split()[1]),
            files=sum(1 for _ in (own / "fd").iterdir()),
            series=sum(1 for line in page.splitlines() if line and not line.startswith(b"#")),
            processes=len(snapshot.processes),
            pods=len(snapshot.pods),
        )

    def wait_for_collections(self, count: int) -> None:
        """So many that began from now on."""
        before = self.snapshot().agent.collections
        self._wait(lambda: self.snapshot().agent.collections > before + count, f"{count} collections")

    def wait_until_serving(self) -> None:
        def serves() -> bool:
            try:
                self.get("/readyz")
            except (OSError, SoakFailed):
                return False
            return True

        self._wait(serves, "its page")

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + _PATIENCE_SECONDS
        while not condition():
            if self._process.poll() is not None:
                raise SoakFailed(f"the agent ended with {self._process.returncode}: {self.said()[-1000:]}")
            if time.monotonic() > end:
                raise SoakFailed(f"waited {_PATIENCE_SECONDS:g} s in vain for {what}: {self.said()[-1000:]}")
            time.sleep(_POLL_SECONDS)


@contextlib.contextmanager
def running_agent(
    settings: Mapping[str, str], port: int, trust: ssl.SSLContext, folder: Path
) -> Iterator[Agent]:
    command = [AGENT, "agent", "--exporter-host", "127.0.0.1", "--exporter-port", str(port)]
    for name, value in settings.items():
        command += [f"--{name.replace('_', '-')}", value]
    # Coverage would grow along.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE", "PYTHON"))}
    log = folder / "agent.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=written, stderr=written
        )
    try:
        agent = Agent(process, port, trust, log)
        agent.wait_until_serving()
        yield agent
        process.send_signal(signal.SIGTERM)
        if process.wait(_PATIENCE_SECONDS) != 0:
            raise SoakFailed(f"SIGTERM ended the agent with {process.returncode}: {agent.said()[-1000:]}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
