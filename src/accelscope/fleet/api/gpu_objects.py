"""Nodes, GPUs and processes as exec-based collectors show them, made from columns and encoded piece by piece.

All of this runs in a thread while the loop answers others. One call that encodes everything would keep the
interpreter to itself for a tenth of a second; many small ones do not.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec
import numpy as np

from accelscope.fleet.api.copied_columns import CopiedColumns
from accelscope.fleet.api.gpu_types import Gpu, GpuNode, GpuProcess
from accelscope.fleet.store.node_rows import FRESH, STALE
from accelscope.model import ProcessType
from accelscope.vendors import declarations

GPU_VENDORS = tuple(name for name, vendor in declarations().items() if vendor.makes_gpus)
MEBIBYTE = 1 << 20
_NODES_AT_ONCE = 50
_PROCESSES_AT_ONCE = 500
_TYPES = {
    ProcessType.COMPUTE.value: "compute",
    ProcessType.BOTH.value: "compute",
    ProcessType.GRAPHICS.value: "graphics",
}

NODE_ORDER = ("cluster", "node")
PROCESS_ORDER = ("cluster", "node", "device_index", "pid", "device")
NODE_FIELDS = ("cluster", "node", "taken_at", "state", "simulated", "source")
GPU_FIELDS = (
    *("cluster", "node", "index", "uuid", "model", "driver_version", "temperature_celsius"),
    *("utilization_ratio", "memory_utilization_ratio"),
    *("memory_total_bytes", "memory_used_bytes", "memory_free_bytes", "power_watts", "power_limit_watts"),
    *("pcie_generation", "pcie_width", "fan_speed_ratio", "vendor", "id", "health"),
)
PROCESS_FIELDS = (
    *("cluster", "node", "pid", "device_index", "type", "utilization_ratio", "memory_utilization_ratio"),
    *("encoder_utilization_ratio", "decoder_utilization_ratio", "memory_bytes", "name", "taken_at", "state"),
    *("simulated", "device", "namespace", "pod", "container"),
)


def tidy(value: float) -> int | float | None:
    """As `tenths`; None for what no number in an answer is."""
    return tenths(value) if abs(value) < 2.0**63 else None


def tenths(value: float) -> int | float:
    """One decimal; a whole number without one, since some callers take nothing else."""
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded


class NodeGpus:
    """`labels` by row of `nodes`. Nodes without GPUs are left out."""

    def __init__(
        self,
        gpus: CopiedColumns,
        nodes: CopiedColumns,
        labels: Sequence[Mapping[str, str]],
        now: float,
    ) -> None:
        self._gpus = gpus
        self._nodes = nodes
        self._labels = labels
        self._now = now

    def encoded(self) -> Iterator[bytes]:
        return _encoded(self.nodes(), _NODES_AT_ONCE)

    def nodes(self) -> Iterator[GpuNode]:
        """By cluster and name."""
        by_node = self._by_node()
        nodes = self._nodes
        rows = list(
            zip(
                nodes.nodes.tolist(),
                nodes.text("node"),
                nodes.text("cluster"),
                nodes.ages(self._now),
                nodes.is_("state", FRESH),
                nodes.flags("simulated"),
                nodes.text("source"),
                self._labels,
                strict=True,
            )
        )
        for place in np.lexsort([nodes.keys(field) for field in reversed(NODE_ORDER)]).tolist():
            number, name, cluster, age, fresh, simulated, source, labels = rows[place]
            held = by_node.get(number)
            if held is None:
                continue
            total = sum(gpu.memory_total_mb for gpu in held if gpu.memory_total_mb is not None)
            yield GpuNode(
                node_name=name,
                cluster_id=cluster,
                gpus=held,
                gpu_count=len(held),
                total_memory_mb=tenths(total),
                labels=dict(labels),
                age_seconds=age,
                stale=not fresh,
                simulated=simulated,
                source=source,
            )

    def _by_node(self) -> dict[int, list[Gpu]]:
        """By the node's number; of each by vendor and index."""
        columns = self._gpus
        ranks = np.zeros(len(columns.nodes), np.uint8)
        for rank, vendor in enumerate(GPU_VENDORS):
            ranks[np.array(columns.is_("vendor", vendor), np.bool_)] = rank
        columns.put_in_order(np.lexsort([columns.keys("index"), ranks, columns.nodes]))
        by_node: dict[int, list[Gpu]] = {}
        for number, gpu in zip(columns.nodes.tolist(), _gpus(columns), strict=True):
            by_node.setdefault(number, []).append(gpu)
        return by_node


def _gpus(columns: CopiedColumns) -> Iterator[Gpu]:
    return map(
        Gpu,
        columns.number("index"),
        columns.text("uuid"),
        columns.text("model"),
        columns.text("driver_version"),
        columns.number("temperature_celsius"),
        columns.number("utilization_ratio", 100),
        columns.number("memory_utilization_ratio", 100),
        columns.number("memory_total_bytes", 1 / MEBIBYTE),
        columns.number("memory_used_bytes", 1 / MEBIBYTE),
        columns.number("memory_free_bytes", 1 / MEBIBYTE),
        columns.number("power_watts"),
        columns.number("power_limit_watts"),
        columns.number("pcie_generation"),
        columns.number("pcie_width"),
        columns.number("fan_speed_ratio", 100),
        columns.text("vendor"),
        columns.text("id"),
        columns.text("health"),
    )


def encoded_processes(columns: CopiedColumns, now: float) -> Iterator[bytes]:
    """By cluster, node, GPU and pid."""
    columns.put_in_order(np.lexsort([columns.keys(field) for field in reversed(PROCESS_ORDER)]))
    return _encoded(_processes(columns, now), _PROCESSES_AT_ONCE)


def _encoded(items: Iterator[object], at_once: int) -> Iterator[bytes]:
    """A JSON list, so many items a piece."""
    before = b"["
    while some := list(islice(items, at_once)):
        yield before + msgspec.json.encode(some)[1:-1]
        before = b","
    yield b"]" if before == b"," else b"[]"


def _processes(columns: CopiedColumns, now: float) -> Iterator[GpuProcess]:
    return map(
        GpuProcess,
        columns.number("pid"),
        columns.number("device_index"),
        [_TYPES.get(kind, "unknown") for kind in columns.text("type")],
        columns.number("utilization_ratio", 100),
        columns.number("memory_utilization_ratio", 100),
        columns.number("encoder_utilization_ratio", 100),
        columns.number("decoder_utilization_ratio", 100),
        columns.number("memory_bytes", 1 / MEBIBYTE),
        columns.text("name"),
        columns.text("node"),
        columns.text("cluster"),
        columns.ages(now),
        columns.is_("state", STALE),
        columns.flags("simulated"),
        columns.text("device"),
        columns.text("namespace"),
        columns.text("pod"),
        columns.text("container"),
    )
