"""A simulated fleet, the process that reads it, and a client of that."""

import contextlib
import gzip
import http.client
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.children import AGENT, Child, Workshop, free_port, running

KIND = "nvidia-h100x8"  # 8 devices with 4 processes each
CLUSTER_NODES = 1000  # more nodes are more clusters
REFRESH_SECONDS = 10.0  # between two that are asked for
_START_SECONDS = 120.0
_POLL_SECONDS = 0.1


class Api:
    """On one kept connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(self, path: str, method: str = "GET") -> tuple[float, Any]:
        """Seconds from before sending to the last byte, and the answer."""
        started = time.perf_counter()
        self._connection.request(method, path, headers={"Accept-Encoding": "gzip"})
        response = self._connection.getresponse()
        body = response.read()
        seconds = time.perf_counter() - started
        if response.status != 200:
            raise RuntimeError(f"{path}: {response.status} {body[:200]!r}")
        if response.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        return seconds, json.loads(body)

    def close(self) -> None:
        self._connection.close()


@dataclass(slots=True)
class Stream:
    """The live stream, read in a thread: how late each change came."""

    port: int
    late_seconds: list[float] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> "Stream":
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _read(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/api/v1/stream")
        with contextlib.closing(connection), connection.getresponse() as response:
            kind = ""
            while not self._stop.is_set() and (line := response.readline()):
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name == "event":
                    kind = value
                elif name == "data" and kind == "change":
                    self.late_seconds.append(time.time() - json.loads(value)["at"])


@dataclass(frozen=True, slots=True)
class Fleet:
    """Both processes, running."""

    simulator: Child
    reader: Child
    port: int
    clusters: tuple[str, ...]
    first_seconds: float  # from the reader's start until every node was read
    folder: Path  # of the simulation

    def refresh(self, clusters: Sequence[str] | None = None) -> float:
        """Seconds until all of these, asked for at once, have been read anew."""
        with ThreadPoolExecutor(len(self.clusters)) as threads:
            started = time.perf_counter()
            list(threads.map(self._refresh, self.clusters if clusters is None else clusters))
            return time.perf_counter() - started

    def _refresh(self, cluster: str) -> None:
        with contextlib.closing(Api(self.port)) as api:
            api.ask(f"/api/v1/clusters/{cluster}/refresh", "POST")

    def generation(self) -> int:
        """Grows with each node that changes."""
        with contextlib.closing(Api(self.port)) as api:
            return int(api.ask("/api/v1/version")[1]["generation"])

    def trouble(self, *arguments: str) -> None:
        command = [AGENT, "simulate", "fleet-fault", str(self.folder), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def fleet_of(
    workshop: Workshop, nodes: int, *, clusters: int = 1, settings: Sequence[str]
) -> Iterator[Fleet]:
    """Clusters of so many nodes together. The agents read so often that every node has a new reading at each
    refresh."""
    folder = Path(tempfile.mkdtemp(prefix="fleet-", dir=workshop.folder))
    command = [AGENT, "simulate", "fleet", str(folder), "--clusters", str(clusters)]
    command += ["--nodes", str(nodes // clusters)]
    command += ["--kind", KIND, "--interval", str(REFRESH_SECONDS)]
    simulator = Child("simulator", command, workshop.environment(), workshop.folder)
    with running(simulator):
        _wait_for(folder / "faults.yaml", simulator)
        port = free_port()
        command = [
            AGENT,
            "fleet",
            "--clusters-file",
            str(folder / "clusters.yaml"),
            "--listen-port",
            str(port),
        ]
        command += ["--requests-per-second", "100000", "--requests-burst", "100000", "--log-level", "error"]
        reader = Child("fleet", [*command, *settings], workshop.environment(), workshop.folder)
        with running(reader):
            first = _read_whole(port, nodes, reader)
            api = Api(port)
            ids = tuple(cluster["id"] for cluster in api.ask("/api/v1/clusters")[1]["items"])
            api.close()
            yield Fleet(simulator, reader, port, ids, first, folder)


def _wait_for(path: Path, child: Child) -> None:
    end = time.perf_counter() + _START_SECONDS
    while not path.exists():
        child.check()
        if time.perf_counter() > end:
            raise RuntimeError(f"{path.name} is not there after {_START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)


def _read_whole(port: int, nodes: int, child: Child) -> float:
    """Seconds from the process's start until every node has been read."""
    path = f"/api/v1/nodes?state={quote('fresh')}&limit=1"
    while True:
        child.check()
        with contextlib.suppress(OSError, RuntimeError, http.client.HTTPException):
            api = Api(port)
            with contextlib.closing(api):
                if api.ask(path)[1]["total"] >= nodes:
                    return time.perf_counter() - child.started
        if time.perf_counter() - child.started > _START_SECONDS:
            raise RuntimeError(f"the fleet has not read {nodes} nodes after {_START_SECONDS:g} s")
        time.sleep(_POLL_SECONDS)
