"""Making a page: the agent's writer beside prometheus_client."""

import gzip
import statistics
import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from accelscope.metrics.exposition import Exposition
from accelscope.model import (
    AgentState,
    Device,
    Health,
    HealthState,
    Partition,
    Process,
    ProcessType,
    Snapshot,
    Vendor,
)
from bench.children import Workshop
from bench.contracts import Outcome
from bench.tables import Table, ms, times

_DEVICES, _PARTITIONS, _PROCESSES = 16, 200, 500


class _Ready(Collector):
    """Families that only have to be written: prometheus_client is spared the way from the model to them."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def render(workshop: Workshop) -> Outcome:
    snapshot = _snapshot()
    exposition = Exposition()
    page = exposition.render(snapshot)
    registry = CollectorRegistry()
    registry.register(_Ready(list(text_string_to_metric_families(page.text.decode()))))
    repeats = workshop.effort.renderings
    theirs = _median(lambda: generate_latest(registry), repeats)
    table = Table("Rendering one page", ("what", "series", "ms", "to the agent's", "bytes"))
    ours = _median(lambda: exposition.render(snapshot).text, repeats)
    size = str(len(page.text))
    table.add("agent's writer, from a snapshot to text", str(page.series), ms(ours), times(1), size)
    both = _median(lambda: _both(exposition, snapshot), repeats)
    table.add("the same, text and OpenMetrics", str(page.series), ms(both), times(both / ours), "")
    table.add(
        "prometheus_client generate_latest, from ready families to text",
        str(page.series),
        ms(theirs),
        times(theirs / ours),
        str(len(generate_latest(registry))),
    )
    for level in (1, 6):
        packed = _median(lambda level=level: gzip.compress(page.text, level, mtime=0), repeats)  # type: ignore[misc]
        size = str(len(gzip.compress(page.text, level, mtime=0)))
        table.add(f"gzip level {level} of the text", "", ms(packed), times(packed / ours), size)
    table.notes = (
        f"{_DEVICES} devices, {_PARTITIONS} partitions, {_PROCESSES} processes; medians of {repeats}.",
    )
    return Outcome([table])


def _both(exposition: Exposition, snapshot: Snapshot) -> tuple[bytes, bytes]:
    page = exposition.render(snapshot)
    return page.text, page.openmetrics


def _median(work: Callable[[], object], repeats: int) -> float:
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def _snapshot() -> Snapshot:
    devices = tuple(_device(number) for number in range(_DEVICES))
    processes = tuple(
        Process(
            pid=10_000 + number,
            device=devices[number % _DEVICES].id,
            name=f"worker-{number % 7}",
            user="alice",
            type=ProcessType.COMPUTE,
            memory_bytes=(number + 1) * 2**24,
        )
        for number in range(_PROCESSES)
    )
    return Snapshot(
        node="bench",
        taken_at=1_700_000_000.25,
        agent=AgentState(version="0", started_at=1_700_000_000.0),
        devices=devices,
        processes=processes,
    )


def _device(number: int) -> Device:
    uuid = f"GPU-00000000-0000-0000-0000-{number:012d}"
    partitions = tuple(
        Partition(id=f"MIG-{place:08d}", uuid=f"MIG-{place:08d}", memory_total_bytes=2**33 + place)
        for place in range(number, _PARTITIONS, _DEVICES)
    )
    return Device(
        vendor=Vendor.NVIDIA,
        id=f"nvidia:{uuid}",
        index=number,
        model="NVIDIA H100 80GB HBM3",
        uuid=uuid,
        pci_address=f"0000:{number:02x}:00.0",
        driver_version="590.48.01",
        health=Health(HealthState.OK),
        read_at=1_700_000_000.125,
        utilization_ratio=number / 17,
        memory_utilization_ratio=number / 23,
        memory_total_bytes=80 * 2**30,
        memory_used_bytes=number * 2**30 + 12345,
        temperature_celsius=40 + number / 4,
        power_watts=301.125 + number,
        power_limit_watts=700.0,
        energy_joules=123456789.125 * (number + 1),
        partitions=partitions,
    )
