"""The processes of one GPU: those that compute, from the compute driver, and those that draw or compute
through its device files. Many are both, and then counted once."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from accelscope.model import Process, ProcessType
from accelscope.vendors.amd.fdinfo import Client, OpenFile, OpenFiles
from accelscope.vendors.amd.kfd import ComputeDriver, KfdNode


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
