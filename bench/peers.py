"""Other people's exporters: how each is obtained, and how it is started on a simulated node."""

import argparse
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.sources import FromCrates, FromDebian, FromPyPI, Given, NotObtained, Source


@dataclass(frozen=True, slots=True)
class Peer:
    """In arguments and environment, {port}, {interval} (whole seconds) and {node} (the simulated node's
    folder) are filled in."""

    name: str
    source: Source
    arguments: tuple[str, ...]
    shows: bytes  # a part of its page once it has read a device; empty: any page will do
    environment: Mapping[str, str] = field(default_factory=dict)
    on_scrape: bool = False  # it reads when it is scraped, and has no interval
    reads_devices: bool = True  # otherwise it is a yardstick, and no peer

    def command(self, program: Sequence[str], port: int, node: Path, interval_seconds: int) -> list[str]:
        filled = (each.format(port=port, interval=interval_seconds, node=node) for each in self.arguments)
        return [*program, *filled]

    def surroundings(self, node: Path) -> dict[str, str]:
        path = os.environ.get("PATH", os.defpath)
        return {name: value.format(node=node, path=path) for name, value in self.environment.items()}


PEERS = (
    Peer(
        "all-smi 0.22.0",
        FromCrates(
            "all-smi",
            "0.22.0",
            minutes=9,
            needs=("protobuf-compiler", "libprotobuf-dev", "libdrm-dev", "libclang-dev", "pkg-config"),
        ),
        ("api", "--port", "{port}", "--interval", "{interval}", "--processes"),
        b"all_smi_gpu_utilization{",
        # It runs nvidia-smi -L before it loads the library, and would write energy counters to the disk.
        {
            "PATH": "{node}/bin:{path}",
            "LD_LIBRARY_PATH": "{node}/lib",
            "ALL_SMI_ENERGY_NO_WAL": "1",
            "RUST_LOG": "error",
        },
    ),
    Peer(
        "nvitop-exporter 1.7.2",
        FromPyPI("nvitop-exporter", "1.7.2", "nvitop_exporter"),
        ("--hostname", "node", "--port", "{port}", "--interval", "{interval}"),
        b"gpu_utilization_Percentage{",
        {"LD_LIBRARY_PATH": "{node}/lib"},
    ),
    Peer(
        "node_exporter",
        FromDebian("prometheus-node-exporter", "prometheus-node-exporter"),
        ("--web.listen-address=127.0.0.1:{port}",),
        b"node_cpu_seconds_total{",
        on_scrape=True,
        reads_devices=False,
    ),
)

# Exporters that no simulated node can serve, or that could not be had, and what they would need.
OUT_OF_REACH = {
    "nvidia_gpu_exporter": "could not be built: the Go module proxy that was asked refuses every version",
    "dcgm-exporter": "needs DCGM's host engine, which talks to the kernel driver itself",
    "rocm-smi-exporter": "needs librocm_smi64; the simulated node has AMD's tools and sysfs, not its library",
    "AMD device-metrics-exporter": "needs AMD's gpuagent and libamd_smi",
    "Ascend npu-exporter": "needs the driver's libdcmi; the simulated node has npu-smi",
}


GIVEN_PEER = (
    "also compare with this exporter, such as one that no registry carries; may be repeated. "
    "COMMAND is split as a shell does it and run without one. {port}, {interval} (seconds between its "
    "readings) and {node} (folder of the simulated node, with bin, lib, sys, proc, dev) are filled in; write "
    "{{ and }} for braces. An exporter without {interval} is taken as one that reads when it is scraped"
)


def given_peer(text: str) -> Peer:
    """Of `--peer`. Raises ArgumentTypeError."""
    name, _, command = text.partition("=")
    if not name.strip() or not command.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COMMAND")
    try:
        program, *arguments = shlex.split(command)
        for each in arguments:
            each.format(port=0, interval=0, node="")
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise argparse.ArgumentTypeError(f"{name}: {type(error).__name__} in the command: {error}") from None
    if not any("{port}" in each for each in arguments):
        raise argparse.ArgumentTypeError(f"{name}: the command has no {{port}}")
    if Given(program).find() is None:
        raise argparse.ArgumentTypeError(f"{name}: {Given(program).takes}")
    return Peer(
        name.strip(),
        Given(program),
        tuple(arguments),
        b"",
        {"PATH": "{node}/bin:{path}", "LD_LIBRARY_PATH": "{node}/lib"},
        on_scrape=not any("{interval}" in each for each in arguments),
    )


def obtain_missing() -> dict[str, str]:
    """Gets every peer that is not there, and says so, because it takes a while. Why each of the others could
    not be had, by its name."""
    refused: dict[str, str] = {}
    for peer in PEERS:
        if peer.source.find() is not None:
            continue
        print(f"Obtaining {peer.name}: {peer.source.takes}.", flush=True)
        started = time.perf_counter()
        try:
            peer.source.obtain()
        except NotObtained as error:
            refused[peer.name] = str(error)
            print(f"  {error}", flush=True)
        else:
            print(f"  took {time.perf_counter() - started:.0f} s.", flush=True)
    return refused
