"""A small simulated fleet that covers everything the page shows, and the fleet process that reads it.

The clusters berlin, oslo and seoul do not change after `begin_troubles`; lisbon is for tests that break and
restore a whole cluster; quito is never reachable.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import yaml
from tests.fleet_process import FleetProcess, SimulatedClusters, simulated_clusters
from tests.ports import free_port
from tests.waiting import wait_until

INTERVAL_SECONDS = 2  # between readings
SETTINGS = {
    "refresh_interval": f"{INTERVAL_SECONDS}s",
    "stale_after": "15s",  # long enough for a busy machine
    "forget_after": "24h",  # the silent node is used until the last test
    "request_timeout": "5s",
    "requests_per_second": "100000",  # all tests share one address
    "requests_burst": "100000",
}

# A program whose name is markup: the kernel accepts any name of up to 15 bytes.
ODD_PROGRAM = "<b id=odd>x</b>"
_ODD_NODE = {
    "nvidia": {"devices": [{"model": "a100-40gb", "count": 1}]},
    "processes": [
        {"name": ODD_PROGRAM, "device": 0, "memory": "38GiB", "cgroup": {"kind": "pod", "namespace": "odd"}}
    ],
}
_CLUSTERS = {
    "berlin": {"h100": ("nvidia-h100x8", 4), "shared": ("nvidia-shared", 2), "mig": ("nvidia-mig", 1)},
    "oslo": {"mi300": ("amd-mi300x8", 5), "warboy": ("furiosa-warboy", 3)},
    "seoul": {"ascend": ("ascend-910b-x8", 4), "rngd": ("furiosa-rngd", 4)},
    "lisbon": {"shared": ("nvidia-shared", 2)},
}


@dataclass(frozen=True)
class Place:
    """A node, or a device of it."""

    cluster: str
    node: str
    device: int | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Arguments of `accelscope simulate fleet-fault`."""
        of_device = () if self.device is None else ("--device", str(self.device))
        return ("--cluster", self.cluster, "--node", self.node, *of_device)


LOST = Place("berlin", "h100-0004", 5)
HOT = Place("berlin", "h100-0003", 2)
SILENT = Place("oslo", "mi300-0005")  # its agent stops responding
INCOMPATIBLE = Place("seoul", "rngd-0004")
ODD = Place("berlin", "odd-0001", 0)
HEALTHY = Place("berlin", "h100-0001", 0)  # never has a fault
TROUBLED_CLUSTER = "lisbon"
UNREACHED_CLUSTER = "quito"


class Lab:
    def __init__(self, simulated: SimulatedClusters, folder: Path) -> None:
        self.simulated = simulated
        self._folder = folder
        # The port is chosen here, so that a restarted fleet has the same address.
        self.fleet = self.another_fleet()

    @property
    def url(self) -> str:
        return url_of(self.fleet)

    @property
    def entries(self) -> list[dict[str, Any]]:
        """Entries of a clusters file."""
        [some, *_] = self.simulated.entries
        token_file = some["server"]["tokenFile"]
        nobody = {"url": f"http://127.0.0.1:{free_port()}", "tokenFile": token_file}
        return [*self.simulated.entries, {"id": UNREACHED_CLUSTER, "server": nobody}]

    def another_fleet(self, entries: list[dict[str, Any]] | None = None, **settings: str) -> FleetProcess:
        """A fleet that is not started yet."""
        port = free_port()
        given = {**SETTINGS, "listen_port": str(port), **settings}
        return FleetProcess(self.entries if entries is None else entries, self._folder / str(port), given)

    def items(self, kind: str, **filters: object) -> list[Any]:
        """Rows of an API list."""
        return list(self.fleet.get(f"/api/v1/{kind}?{urlencode(filters)}")["items"])

    def device(self, place: Place) -> Any:
        [row] = self.items("devices", cluster=place.cluster, node=place.node, index=place.device)
        return row

    def node(self, place: Place) -> Any:
        [row] = self.items("nodes", cluster=place.cluster, node=place.node)
        return row

    @contextmanager
    def fault(self, *words: str) -> Iterator[None]:
        """Cause a fault within the context."""
        self.simulated.fault(*words)
        try:
            yield
        finally:
            self.simulated.fault(*words, "--clear")

    def begin_troubles(self) -> None:
        self.simulated.fault("lost", *LOST.words)
        self.simulated.fault("hot", *HOT.words)
        self.simulated.fault("agent_down", *SILENT.words)
        wait_until(lambda: self.node(SILENT)["state"] == "stale", "the silent node is stale")
        wait_until(lambda: self.device(LOST)["health"] == "lost", "the lost device is lost")
        wait_until(lambda: self.device(HOT)["health"] != "ok", "the hot device is unhealthy")


def url_of(fleet: FleetProcess) -> str:
    return f"http://127.0.0.1:{fleet.port}"


def write_description(folder: Path) -> Path:
    """Write the description of the simulated clusters."""
    (folder / "odd.yaml").write_text(yaml.safe_dump(_ODD_NODE))
    clusters = [
        {
            "id": cluster,
            "nodes": [{"node": kind, "name": name, "count": n} for name, (kind, n) in groups.items()],
        }
        for cluster, groups in _CLUSTERS.items()
    ]
    clusters[0]["nodes"].append({"node": "odd.yaml", "name": "odd"})  # type: ignore[attr-defined]
    old = {
        "kind": "agent_schema",
        "cluster": INCOMPATIBLE.cluster,
        "node": INCOMPATIBLE.node,
        "schema": "9.0",
    }
    file = folder / "description.yaml"
    description = {"interval_seconds": INTERVAL_SECONDS, "variants": 2, "clusters": clusters, "faults": [old]}
    file.write_text(yaml.safe_dump(description, sort_keys=False))
    return file


def node_count() -> int:
    return 1 + sum(count for groups in _CLUSTERS.values() for _, count in groups.values())


@contextmanager
def running_lab(folder: Path) -> Iterator[Lab]:
    with simulated_clusters(folder / "simulated", str(write_description(folder))) as simulated:
        lab = Lab(simulated, folder)
        with lab.fleet:
            wait_until(lambda: len(lab.items("nodes", limit=1000)) == node_count(), "every node is known")
            fresh = node_count() - 1
            wait_until(lambda: len(lab.items("nodes", state="fresh", limit=1000)) == fresh, "all are read")
            lab.begin_troubles()
            yield lab
