"""Thanos: one query API over the sidecars of several Prometheus."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.kubernetes import binaries
from tests.e2e.prometheus_server import PrometheusServer
from tests.e2e.stores.program import running
from tests.ports import free_port

# What a sidecar asks of its Prometheus: blocks that nobody rewrites.
PROMETHEUS_OPTIONS = ("--storage.tsdb.min-block-duration=2h", "--storage.tsdb.max-block-duration=2h")


@dataclass(frozen=True)
class Sidecar:
    process: subprocess.Popen[bytes]
    address: str  # of its gRPC API


@contextmanager
def sidecar(prometheus: PrometheusServer, folder: Path) -> Iterator[Sidecar]:
    http, grpc = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    command = [
        str(binaries.program("thanos")),
        "sidecar",
        f"--prometheus.url=http://127.0.0.1:{prometheus.port}",
        f"--tsdb.path={prometheus.data}",
        f"--http-address={http}",
        f"--grpc-address={grpc}",
    ]
    with running("sidecar", command, f"http://{http}/-/ready", folder) as process:
        yield Sidecar(process, grpc)


@contextmanager
def query(sidecars: Sequence[Sidecar], folder: Path) -> Iterator[str]:
    """Its URL."""
    http, grpc = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    command = [
        str(binaries.program("thanos")),
        "query",
        f"--http-address={http}",
        f"--grpc-address={grpc}",
        *(f"--endpoint={one.address}" for one in sidecars),
    ]
    with running("query", command, f"http://{http}/-/ready", folder):
        yield f"http://{http}"
