"""The processes of one GPU: from the compute driver, and from the device files that processes have open. A
process in both is listed once.
"""

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from accelscope.model import Process, ProcessType
from accelscope.vendors.amd.drm import ComputeDriver, KfdNode
from accelscope.vendors.common.files import entries, read_text

# Memory and engine time of graphics clients, from /proc/<pid>/fdinfo.
#
# The links in /proc/<pid>/fd show which processes have a GPU's device file open; the kernel reads them
# without the driver. fdinfo comes from the driver and may hang with the GPU, so it is read together with the
# GPU. Scanning all processes is expensive, so a process without such a file is scanned again only every 30
# seconds.

_NODE = re.compile(r"(?:.*/)?dri/((?:renderD|card)[0-9]{1,6})", re.ASCII)
_PID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_LINE = re.compile(r"^(drm-[a-z0-9-]{1,40}):[ \t]*([^\n]{0,100}?)[ \t]*$", re.MULTILINE)
_AMOUNT = re.compile(r"([0-9]{1,20})(?:\s+([KMG]iB))?", re.ASCII)
_NANOSECONDS = re.compile(r"([0-9]{1,20}) ns", re.ASCII)
_BYTES = {None: 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_RESCAN_SECONDS = 30.0
_MOST_FILES = 4096  # of one process; browsers have hundreds


@dataclass(frozen=True, slots=True)
class OpenFile:
    pid: int
    descriptor: str


@dataclass(frozen=True, slots=True)
class Client:
    """A DRM client: one open() of a GPU. Duplicated descriptors, also in a child, are the same client."""

    id: str
    memory_bytes: int | None
    # Nanoseconds that its work ran on an engine; None if the driver does not report the engine.
    graphics_ns: int | None
    compute_ns: int | None
    encoder_ns: int | None
    decoder_ns: int | None

    @property
    def idle(self) -> bool:
        """Whether it holds no memory and never ran anything, as is usual for desktops and monitoring
        tools."""
        ran = self.graphics_ns or self.compute_ns or self.encoder_ns or self.decoder_ns
        return not self.memory_bytes and not ran


class OpenFiles:
    """Finds the processes that have device files of GPUs open."""

    def __init__(self, proc: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._proc = str(proc)
        self._monotonic = monotonic
        self._scanned_at: dict[int, float] = {}
        self._users: set[int] = set()  # pids of processes that had a device file open
        self.refused = 0  # processes whose open files may not be read

    def find(self) -> Mapping[str, tuple[OpenFile, ...]]:
        """By the name of the device file, such as renderD128."""
        now = self._monotonic()
        found: dict[str, list[OpenFile]] = {}
        scanned_at: dict[int, float] = {}
        users: set[int] = set()
        self.refused = 0
        for name in entries(self._proc):
            if not _PID.fullmatch(name):
                continue
            pid = int(name)
            last = self._scanned_at.get(pid)
            if last is not None and pid not in self._users and now - last < _RESCAN_SECONDS:
                scanned_at[pid] = last
                continue
            scanned_at[pid] = now
            for node, file in self._scan(pid):
                users.add(pid)
                found.setdefault(node, []).append(file)
        self._scanned_at, self._users = scanned_at, users
        return {node: tuple(files) for node, files in found.items()}

    def client(self, file: OpenFile) -> Client | None:
        """The DRM client of an open file, or None if the file was closed meanwhile. May hang."""
        try:
            return parse_fdinfo(read_text(f"{self._proc}/{file.pid}/fdinfo/{file.descriptor}"))
        except OSError:
            return None

    def _scan(self, pid: int) -> list[tuple[str, OpenFile]]:
        folder = f"{self._proc}/{pid}/fd"
        found = []
        try:
            for descriptor in os.listdir(folder)[:_MOST_FILES]:  # noqa: PTH208 - thousands of them
                match = _NODE.fullmatch(_target(f"{folder}/{descriptor}"))
                if match is not None:
                    found.append((match[1], OpenFile(pid, descriptor)))
        except PermissionError:
            self.refused += 1
        except OSError:
            return found  # the process ended meanwhile
        return found


def parse_fdinfo(text: str) -> Client | None:
    """None if it is not a file of this driver."""
    fields = dict(_LINE.findall(text))
    client = fields.get("drm-client-id", "")
    if fields.get("drm-driver") != "amdgpu" or not client.isdecimal():
        return None
    keys = ("drm-memory-vram", "drm-resident-vram", "drm-total-vram")
    amounts = (_bytes(fields[key]) for key in keys if key in fields)
    return Client(
        id=client,
        memory_bytes=next((amount for amount in amounts if amount is not None), None),
        graphics_ns=_engine_ns(fields, "drm-engine-gfx"),
        compute_ns=_engine_ns(fields, "drm-engine-compute"),
        encoder_ns=_engine_ns(fields, "drm-engine-enc"),
        decoder_ns=_engine_ns(fields, "drm-engine-dec"),
    )


def _bytes(text: str) -> int | None:
    match = _AMOUNT.fullmatch(text)
    return int(match[1]) * _BYTES[match[2]] if match else None


def _engine_ns(fields: Mapping[str, str], key: str) -> int | None:
    match = _NANOSECONDS.fullmatch(fields.get(key, ""))
    return int(match[1]) if match else None


def _target(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 - thousands of them
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class ProcessCandidates:
    """Processes that may use a GPU, as the last survey found them."""

    compute_pids: tuple[int, ...] = ()
    open_files: Mapping[str, tuple[OpenFile, ...]] | None = None


@dataclass(frozen=True, slots=True)
class _EngineUse:
    """Fractions of the time between two readings during which the engines ran work of a client."""

    graphics: float | None = None
    compute: float | None = None
    encoder: float | None = None
    decoder: float | None = None


@dataclass(slots=True)
class _ClientTotals:
    """The sum over all clients of one process on one partition."""

    memory_bytes: int | None = None
    graphics: bool = False
    compute: bool = False
    utilization: float | None = None
    encoder: float | None = None
    decoder: float | None = None

    def add(self, client: Client, use: _EngineUse) -> None:
        if client.memory_bytes is not None:
            self.memory_bytes = (self.memory_bytes or 0) + client.memory_bytes
        self.graphics |= bool(client.graphics_ns)
        self.compute |= bool(client.compute_ns)
        # Graphics and compute may run at the same time, so they are not added.
        ratios = [ratio for ratio in (use.graphics, use.compute) if ratio is not None]
        self.utilization = _sum(self.utilization, max(ratios, default=None))
        self.encoder = _sum(self.encoder, use.encoder)
        self.decoder = _sum(self.decoder, use.decoder)


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(1.0, one + other)


class ProcessLister:
    """Lists the processes of one GPU."""

    def __init__(
        self,
        compute: ComputeDriver,
        open_files: OpenFiles,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._compute = compute
        self._open_files = open_files
        self._monotonic = monotonic
        self._before: dict[str, tuple[float, Client]] = {}

    def read(
        self,
        *,
        device: str,
        index: int,
        nodes: Iterable[KfdNode],
        partitions: Mapping[str, str],
        device_files: Iterable[str],
        candidates: ProcessCandidates,
    ) -> tuple[Process, ...]:
        """`partitions` maps device files to ids of partitions; `device_files` are those of the GPU."""
        found: dict[tuple[int, str | None], Process] = {}
        for node in nodes:
            partition = partitions.get(node.render_node or "")
            for pid in candidates.compute_pids:
                use = self._compute.use(pid, node)
                if use is not None:
                    found[pid, partition] = Process(
                        pid=pid,
                        device=device,
                        device_index=index,
                        partition=partition,
                        type=ProcessType.COMPUTE,
                        memory_bytes=use.memory_bytes,
                        utilization_ratio=use.occupied_ratio,
                    )
        for (pid, partition), totals in self._sum_clients(partitions, device_files, candidates).items():
            process = found.get((pid, partition)) or Process(
                pid=pid, device=device, device_index=index, partition=partition
            )
            found[pid, partition] = _add_clients(process, totals)
        return tuple(found.values())

    def _sum_clients(
        self, partitions: Mapping[str, str], device_files: Iterable[str], candidates: ProcessCandidates
    ) -> dict[tuple[int, str | None], _ClientTotals]:
        totals: dict[tuple[int, str | None], _ClientTotals] = {}
        clients: dict[str, tuple[float, Client]] = {}
        for node in device_files:
            for file in (candidates.open_files or {}).get(node, ()):
                client = self._open_files.client(file)
                if client is None or client.idle or client.id in clients:
                    continue
                now = self._monotonic()
                clients[client.id] = now, client
                process = totals.setdefault((file.pid, partitions.get(node)), _ClientTotals())
                process.add(client, self._engine_use(client, now))
        self._before = clients
        return totals

    def _engine_use(self, client: Client, now: float) -> _EngineUse:
        """Empty at the first reading of a client. A counter that falls belongs to a new client with the same
        id and is ignored."""
        if client.id not in self._before:
            return _EngineUse()
        then, before = self._before[client.id]
        return _EngineUse(
            _share(before.graphics_ns, client.graphics_ns, now - then),
            _share(before.compute_ns, client.compute_ns, now - then),
            _share(before.encoder_ns, client.encoder_ns, now - then),
            _share(before.decoder_ns, client.decoder_ns, now - then),
        )


def _share(before_ns: int | None, now_ns: int | None, seconds: float) -> float | None:
    if now_ns is None or seconds <= 0 or now_ns < (before_ns or 0):
        return None
    return round(min(1.0, (now_ns - (before_ns or 0)) / (seconds * 1e9)), 4)


def _add_clients(process: Process, clients: _ClientTotals) -> Process:
    """The memory in the device files includes that of the compute driver, so the larger amount is used."""
    kind = process.type
    if kind is ProcessType.COMPUTE:
        kind = ProcessType.BOTH if clients.graphics else kind
    elif clients.graphics:
        kind = ProcessType.BOTH if clients.compute else ProcessType.GRAPHICS
    elif clients.compute:
        kind = ProcessType.COMPUTE
    amounts = [amount for amount in (process.memory_bytes, clients.memory_bytes) if amount is not None]
    ratios = [ratio for ratio in (process.utilization_ratio, clients.utilization) if ratio is not None]
    return replace(
        process,
        type=kind,
        memory_bytes=max(amounts) if amounts else None,
        utilization_ratio=max(ratios, default=None),
        encoder_utilization_ratio=clients.encoder,
        decoder_utilization_ratio=clients.decoder,
    )
