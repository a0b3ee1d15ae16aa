"""The processes of one GPU: those that compute, from the compute driver, and those that draw or compute
through its device files. Many are both, and then counted once.
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

# --- fdinfo ------------------------------------------------------------
# What processes hold and run through the graphics side of the driver, from /proc/<pid>/fdinfo.
#
# Which processes have a GPU's device file open is told by the links in /proc/<pid>/fd, without asking the
# driver; what it says of such a file is read with the device, since that may hang with it. Looking through
# all processes costs much, so those without such a file are looked at again only now and then.


_NODE = re.compile(r"(?:.*/)?dri/((?:renderD|card)[0-9]{1,6})", re.ASCII)
_PID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_LINE = re.compile(r"^(drm-[a-z0-9-]{1,40}):[ \t]*([^\n]{0,100}?)[ \t]*$", re.MULTILINE)
_AMOUNT = re.compile(r"([0-9]{1,20})(?:\s+([KMG]iB))?", re.ASCII)
_SPENT = re.compile(r"([0-9]{1,20}) ns", re.ASCII)
_BYTES = {None: 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_OTHERS_EVERY_SECONDS = 30.0
_MOST_FILES = 4096  # of one process; browsers have hundreds


@dataclass(frozen=True, slots=True)
class OpenFile:
    pid: int
    descriptor: str


@dataclass(frozen=True, slots=True)
class Client:
    """One opening of a GPU. Copies of it, in the same process or in a child, are the same client."""

    id: str
    memory_bytes: int | None
    # Nanoseconds that its work ran on an engine; None: the driver tells nothing of that engine.
    graphics_ns: int | None
    compute_ns: int | None
    encoder_ns: int | None
    decoder_ns: int | None

    @property
    def idle(self) -> bool:
        """Neither holds memory nor ever ran anything, as desktops and monitors do."""
        ran = self.graphics_ns or self.compute_ns or self.encoder_ns or self.decoder_ns
        return not self.memory_bytes and not ran


class OpenFiles:
    """Who has device files of GPUs open."""

    def __init__(self, proc: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._proc = str(proc)
        self._monotonic = monotonic
        self._looked_at: dict[int, float] = {}
        self._holders: set[int] = set()
        self.refused = 0  # processes that may not be looked at

    def find(self) -> Mapping[str, tuple[OpenFile, ...]]:
        """By the name of the device file, renderD128."""
        now = self._monotonic()
        found: dict[str, list[OpenFile]] = {}
        looked_at: dict[int, float] = {}
        holders: set[int] = set()
        self.refused = 0
        for name in entries(self._proc):
            if not _PID.fullmatch(name):
                continue
            pid = int(name)
            last = self._looked_at.get(pid)
            if last is not None and pid not in self._holders and now - last < _OTHERS_EVERY_SECONDS:
                looked_at[pid] = last
                continue
            looked_at[pid] = now
            for node, file in self._open_by(pid):
                holders.add(pid)
                found.setdefault(node, []).append(file)
        self._looked_at, self._holders = looked_at, holders
        return {node: tuple(files) for node, files in found.items()}

    def client(self, file: OpenFile) -> Client | None:
        """What the driver says of an open file; None: it was closed meanwhile. May hang."""
        try:
            return parse_fdinfo(read_text(f"{self._proc}/{file.pid}/fdinfo/{file.descriptor}"))
        except OSError:
            return None

    def _open_by(self, pid: int) -> list[tuple[str, OpenFile]]:
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
            return found  # it ended meanwhile
        return found


def parse_fdinfo(text: str) -> Client | None:
    """None: not a file of this driver."""
    told = dict(_LINE.findall(text))
    client = told.get("drm-client-id", "")
    if told.get("drm-driver") != "amdgpu" or not client.isdecimal():
        return None
    memory = (told[key] for key in ("drm-memory-vram", "drm-resident-vram", "drm-total-vram") if key in told)
    return Client(
        id=client,
        memory_bytes=next((amount for amount in map(_bytes, memory) if amount is not None), None),
        graphics_ns=_spent(told, "drm-engine-gfx"),
        compute_ns=_spent(told, "drm-engine-compute"),
        encoder_ns=_spent(told, "drm-engine-enc"),
        decoder_ns=_spent(told, "drm-engine-dec"),
    )


def _bytes(text: str) -> int | None:
    match = _AMOUNT.fullmatch(text)
    return int(match[1]) * _BYTES[match[2]] if match else None


def _spent(told: Mapping[str, str], key: str) -> int | None:
    match = _SPENT.fullmatch(told.get(key, ""))
    return int(match[1]) if match else None


def _target(link: str) -> str:
    try:
        return os.readlink(link)  # noqa: PTH115 - thousands of them
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class Holders:
    """Who might be on the GPUs, as the last survey found them."""

    computing: tuple[int, ...] = ()
    files: Mapping[str, tuple[OpenFile, ...]] | None = None


@dataclass(frozen=True, slots=True)
class _Spent:
    """Shares of the time between two readings in which a client's engines ran."""

    graphics: float | None = None
    compute: float | None = None
    encoder: float | None = None
    decoder: float | None = None


@dataclass(slots=True)
class _Drawn:
    """All clients of one process on one partition."""

    memory_bytes: int | None = None
    graphics: bool = False
    compute: bool = False
    use: float | None = None
    encoder: float | None = None
    decoder: float | None = None

    def add(self, client: Client, spent: _Spent) -> None:
        if client.memory_bytes is not None:
            self.memory_bytes = (self.memory_bytes or 0) + client.memory_bytes
        self.graphics |= bool(client.graphics_ns)
        self.compute |= bool(client.compute_ns)
        # Two engines at once are not more than all of the time.
        ran = [use for use in (spent.graphics, spent.compute) if use is not None]
        self.use = _sum(self.use, max(ran, default=None))
        self.encoder = _sum(self.encoder, spent.encoder)
        self.decoder = _sum(self.decoder, spent.decoder)


def _sum(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(1.0, one + other)


class ProcessLister:
    """Of one GPU."""

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
        holders: Holders,
    ) -> tuple[Process, ...]:
        """`partitions` maps device files to ids of partitions; `device_files` are those of the GPU."""
        found: dict[tuple[int, str | None], Process] = {}
        for node in nodes:
            partition = partitions.get(node.render_node or "")
            for pid in holders.computing:
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
        for (pid, partition), drawn in self._drawn(partitions, device_files, holders).items():
            before = found.get((pid, partition)) or Process(
                pid=pid, device=device, device_index=index, partition=partition
            )
            found[pid, partition] = _with(before, drawn)
        return tuple(found.values())

    def _drawn(
        self, partitions: Mapping[str, str], device_files: Iterable[str], holders: Holders
    ) -> dict[tuple[int, str | None], _Drawn]:
        found: dict[tuple[int, str | None], _Drawn] = {}
        seen: dict[str, tuple[float, Client]] = {}
        for node in device_files:
            for file in (holders.files or {}).get(node, ()):
                client = self._open_files.client(file)
                if client is None or client.idle or client.id in seen:
                    continue
                now = self._monotonic()
                seen[client.id] = now, client
                drawn = found.setdefault((file.pid, partitions.get(node)), _Drawn())
                drawn.add(client, self._spent(client, now))
        self._before = seen
        return found

    def _spent(self, client: Client, now: float) -> _Spent:
        """Nothing at the first sight, and where a count runs backwards: another has that number now."""
        if client.id not in self._before:
            return _Spent()
        then, before = self._before[client.id]
        return _Spent(
            _share(before.graphics_ns, client.graphics_ns, now - then),
            _share(before.compute_ns, client.compute_ns, now - then),
            _share(before.encoder_ns, client.encoder_ns, now - then),
            _share(before.decoder_ns, client.decoder_ns, now - then),
        )


def _share(before_ns: int | None, now_ns: int | None, seconds: float) -> float | None:
    if now_ns is None or seconds <= 0 or now_ns < (before_ns or 0):
        return None
    return round(min(1.0, (now_ns - (before_ns or 0)) / (seconds * 1e9)), 4)


def _with(process: Process, drawn: _Drawn) -> Process:
    """The compute driver's memory is part of what the device files show, so the larger counts."""
    kind = process.type
    if kind is ProcessType.COMPUTE:
        kind = ProcessType.BOTH if drawn.graphics else kind
    elif drawn.graphics:
        kind = ProcessType.BOTH if drawn.compute else ProcessType.GRAPHICS
    elif drawn.compute:
        kind = ProcessType.COMPUTE
    amounts = [amount for amount in (process.memory_bytes, drawn.memory_bytes) if amount is not None]
    uses = [use for use in (process.utilization_ratio, drawn.use) if use is not None]
    return replace(
        process,
        type=kind,
        memory_bytes=max(amounts) if amounts else None,
        utilization_ratio=max(uses, default=None),
        encoder_utilization_ratio=drawn.encoder,
        decoder_utilization_ratio=drawn.decoder,
    )
