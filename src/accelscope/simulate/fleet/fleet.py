"""A running fleet: one process that serves the API servers of all of its clusters.

fleet = SimulatedFleet(load_fleet("mine.yaml"), "/tmp/fleet")
async with fleet.running():
    fleet.urls

folder/fleet.yaml         the description of the fleet
folder/clusters.yaml      for `accelscope fleet --clusters-file`
folder/tokens/            one token for each cluster
folder/faults.yaml        the current faults; may be edited while the fleet runs
"""

import asyncio
import errno
import itertools
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web

from accelscope.simulate.fleet.api_server import AGENT_NAMESPACE, ClusterServer, FleetCluster, driver_pods
from accelscope.simulate.fleet.description import DESCRIPTION, ClusterSpec, FleetSpec, NodeGroup, fleet_text
from accelscope.simulate.fleet.faults import FILE as FAULTS
from accelscope.simulate.fleet.faults import FleetFault, FleetFaultLog, read_faults, write_faults
from accelscope.simulate.fleet.node import FleetNode, Variant
from accelscope.simulate.fleet.recording import Progress, RecordingRequest, recorded
from accelscope.simulate.folder import LockedFolder, write_text
from accelscope.simulate.spec import DescriptionError

HOST = "127.0.0.1"
_STEP_SECONDS = 1.0  # between two updates of the faults and the API servers
_READING_THREADS = 128  # each node with a fault may block one

_log = logging.getLogger(__name__)


class SimulatedFleet:
    """Makes the recordings that are not in the cache, and calls `progress` with a line for each. Binds no
    port and writes no file before `running`. Ports are free ones, or those from `first_port` on. Raises
    RecordingError, and before recordings are made the errors of `running`."""

    def __init__(
        self,
        spec: FleetSpec,
        folder: Path | str,
        *,
        first_port: int | None = None,
        progress: Progress | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.spec = spec
        self.folder = Path(folder).absolute()
        self._locked_folder = LockedFolder(self.folder, "a simulated fleet", (DESCRIPTION, FAULTS))
        self._first_port = first_port
        self._nodes = spec.nodes()
        self._check_folder()
        if first_port is not None:
            for port in range(first_port, first_port + len(spec.clusters)):
                _check_port(port)
        self._variants = self._recorded(progress)
        self._epoch = time.time()
        self._monotonic = monotonic
        self._started = monotonic()
        self._numbers = itertools.count()
        self._log = FleetFaultLog(spec.faults)
        self._faults_error: str | None = None
        self._stepped_at = 0.0
        self.clusters = {cluster.id: self._cluster(cluster) for cluster in spec.clusters}
        self.urls: dict[str, str] = {}

    @property
    def clusters_file(self) -> Path:
        return self.folder / "clusters.yaml"

    def clock(self) -> float:
        """Seconds since the fleet was created."""
        return self._monotonic() - self._started

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves until the context is left. Raises DescriptionError for a folder with other files,
        FolderInUse, and OSError for a port that is not available."""
        self._check_folder()  # again: recordings may have taken minutes
        # Nodes with a fault are read in threads, and a hung device blocks its thread. The few threads of the
        # default executor would not suffice for the other nodes.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_READING_THREADS, "reading"))
        runners, servers = [], []
        try:
            for number, cluster in enumerate(self.clusters.values()):
                server = ClusterServer(cluster, self.clock)
                servers.append(server)
                runner = web.ServerRunner(web.Server(server.handle, access_log=None), shutdown_timeout=0.1)
                runners.append(runner)
                await runner.setup()
                await _listen(runner, 0 if self._first_port is None else self._first_port + number)
                self.urls[cluster.spec.id] = f"http://{HOST}:{runner.addresses[0][1]}"
            with self._locked_folder.locked():
                self._write_files()
                self.step()
                stepping = asyncio.create_task(self._keep_stepping())
                try:
                    yield
                finally:
                    stepping.cancel()
                    await asyncio.wait([stepping])
        finally:
            for runner in runners:
                await runner.cleanup()
            for server in servers:
                await server.close()
            for cluster in self.clusters.values():
                for node in cluster.nodes.values():
                    node.close()

    def step(self) -> None:
        """Reads the current faults and updates the objects of the clusters."""
        at = self.clock()
        self._observe(at)
        for (where, name), faults in self._log.of_nodes().items():
            begun = tuple(fault for fault in faults if fault.begin <= at)
            if begun:
                self.clusters[where].nodes[name].set_faults(begun, at)
        for cluster_id, cluster in self.clusters.items():
            cluster.faults = self._log.of_cluster(cluster_id)
            cluster.step(at, self._stepped_at)
            if any(fault.active(at) for fault in cluster.faults):
                cluster.watchers.wake()
        self._stepped_at = at

    def faults(self) -> tuple[FleetFault, ...]:
        """The current faults, from `faults.yaml`. Raises DescriptionError."""
        return read_faults(self.folder, self._nodes)

    def _check_folder(self) -> None:
        self._locked_folder.check_not_running()
        self._locked_folder.check_content()

    async def _keep_stepping(self) -> None:
        while True:
            await asyncio.sleep(_STEP_SECONDS)
            self.step()

    def _observe(self, at: float) -> None:
        """While the file is invalid, the last valid faults stay in force."""
        try:
            current = self.faults()
        except DescriptionError as error:
            if str(error) != self._faults_error:
                _log.warning("%s; the previous faults stay in force", error)
            self._faults_error = str(error)
            return
        self._faults_error = None
        self._log.observe(current, at)

    def _cluster(self, spec: ClusterSpec) -> FleetCluster:
        nodes = [node for group in spec.groups for node in self._group(group)]
        return FleetCluster(spec, nodes, epoch=self._epoch)

    def _group(self, group: NodeGroup) -> Iterable[FleetNode]:
        for place, name in enumerate(group.names()):
            number = next(self._numbers)
            variant = self._variants[group.kind, place % self.spec.variants]
            yield FleetNode(name, number, variant, seed=self.spec.seed, epoch=self._epoch)

    def _recorded(self, progress: Progress | None) -> dict[tuple[str, int], Variant]:
        """By kind of node and number. All groups of one kind share them."""
        interval, specs = self.spec.interval_seconds, {}
        for group in (group for cluster in self.spec.clusters for group in cluster.groups):
            for number in range(min(group.count, self.spec.variants)):
                seed = group.spec.seed + 1009 * number + 7919 * (self.spec.seed - 1)
                specs[group.kind, number] = replace(group.spec, seed=seed)
        requests = (RecordingRequest(spec.text, spec.seed, interval) for spec in specs.values())
        recordings = zip(specs.items(), recorded(requests, progress), strict=True)
        return {key: Variant(spec, recording, interval) for (key, spec), recording in recordings}

    def _write_files(self) -> None:
        tokens = self.folder / "tokens"
        tokens.mkdir(parents=True, exist_ok=True)
        entries = []
        for cluster_id, cluster in self.clusters.items():
            token_file = tokens / cluster_id
            _write_secret(token_file, cluster.token)
            entries.append(self._entry(cluster, token_file))
        write_text(self.clusters_file, yaml.safe_dump({"clusters": entries}, sort_keys=False))
        write_text(self.folder / DESCRIPTION, fleet_text(self.spec))
        write_faults(self.folder, ())

    def _entry(self, cluster: FleetCluster, token_file: Path) -> dict[str, Any]:
        spec = cluster.spec
        sources: dict[str, Any] = {"annotations": {}}
        if spec.agents:
            sources["agents"] = {"namespace": AGENT_NAMESPACE}
        if spec.driver_pods:
            pods = (pod for group in spec.groups for _, pod in driver_pods(group.spec))
            sources["exec"] = {"namespaces": sorted({pod.namespace for pod in pods})}
        return {
            "id": spec.id,
            **({"name": spec.name} if spec.name else {}),
            "simulated": True,
            "server": {"url": self.urls[spec.id], "tokenFile": str(token_file)},
            "sources": sources,
        }


def _write_secret(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.new")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    scratch.replace(path)


def _check_port(port: int) -> None:
    """Raises OSError."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise _port_error(error, port) from None


async def _listen(runner: web.ServerRunner, port: int) -> None:
    """Raises OSError."""
    try:
        await web.TCPSite(runner, HOST, port, backlog=1024).start()
    except OSError as error:
        raise _port_error(error, port) from None


def _port_error(error: OSError, port: int) -> OSError:
    # asyncio's message repeats the address.
    reason = os.strerror(error.errno) if error.errno else str(error)
    hint = "; choose another with --port" if error.errno == errno.EADDRINUSE else ""
    return OSError(error.errno, f"cannot listen on {HOST}:{port}: {reason}{hint}")
