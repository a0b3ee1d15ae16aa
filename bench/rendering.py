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
    works: dict[str, Callable[[], bytes]] = {
        "agent's writer, from a snapshot to text": lambda: exposition.render(snapshot).text,
        "agent's writer, from a snapshot to OpenMetrics": lambda: exposition.render(snapshot).openmetrics,
        "prometheus_client generate_latest, from ready families": lambda: generate_latest(registry),
        "gzip level 1 of the text": lambda: gzip.compress(page.text, 1, mtime=0),
        "gzip level 6 of the text": lambda: gzip.compress(page.text, 6, mtime=0),
    }
    taken: dict[str, list[float]] = {what: [] for what in works}
    for _ in range(workshop.effort.renderings):  # in turns, so that a busy moment of the machine meets all
        for what, work in works.items():
            started = time.process_time()
            work()
            taken[what].append(time.process_time() - started)
    table = Table("Rendering one page", ("what", "CPU ms", "to the agent's", "bytes"))
    ours = statistics.median(next(iter(taken.values())))
    for what, work in works.items():
        middle = statistics.median(taken[what])
        table.add(what, ms(middle), times(middle / ours), str(len(work())))
    table.notes = (
        f"{page.series} series: {_DEVICES} devices, {_PARTITIONS} partitions, {_PROCESSES} processes. "
        f"Medians of {workshop.effort.renderings}.",
    )
    return Outcome([table])


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
        vendor=Vendor("nvidia"),
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
