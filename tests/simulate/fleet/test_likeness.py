"""A node of a simulated fleet beside what the real agent makes of that same node."""

import math
from pathlib import Path
from typing import Any

import pytest
from tests.costless import costless
from tests.simulate.fleet.real_agent import WALL_CLOCK, collected
from tests.sinks.go_reader import decode_chips

from accelscope.model import Snapshot
from accelscope.model.wire import plain
from accelscope.simulate.faults import Fault, FaultKind, FaultLog
from accelscope.simulate.fleet.annotation import at_time, npu_metrics
from accelscope.simulate.fleet.faults import FleetFault, Trouble
from accelscope.simulate.fleet.node import NodeModel
from accelscope.simulate.fleet.own import Agent
from accelscope.simulate.fleet.usage import Ledger
from accelscope.simulate.spec import NodeSpec
from accelscope.sinks.documents import fitted, npu_document

TIMES = (7200.0, 7210.0)
AGENT = Agent(version="test", interval_seconds=10.0, started_at=WALL_CLOCK)
NODES = (
    "nvidia-h100x8",
    "nvidia-mig",
    "nvidia-mixed",
    "nvidia-shared",
    "amd-mi300x8",
    "amd-mi300-cpx",
    "amd-mi250",
    "ascend-310p",
    "ascend-910b-x8",
    "ascend-950",
    "ascend-a3",
    "furiosa-both",
    "furiosa-rngd",
    "furiosa-warboy",
    "mixed",
)
# The agent measures these between two of its readings, a simulated fleet over the last second.
BETWEEN_READINGS = frozenset(
    {
        "graphics_active_ratio",
        "sm_active_ratio",
        "sm_occupancy_ratio",
        "tensor_active_ratio",
        "dram_active_ratio",
        "fp64_active_ratio",
        "fp32_active_ratio",
        "fp16_active_ratio",
    }
)
# And what is about the agent, its sources and the moment at which it looked.
NOT_COMPARED = frozenset({"read_at", "last_seen"})
PARTS = ("devices", "processes", "pods", "allocations", "pod_usages", "unattributed", "balances")


def simulated(spec: NodeSpec) -> Snapshot:
    model, ledger = NodeModel(spec, AGENT), Ledger()
    for at in TIMES:
        snapshot, ledger = model.snapshot(at, WALL_CLOCK + at, ledger, FaultLog(spec.faults))
    return snapshot


@pytest.mark.parametrize("name", ["nvidia-h100x8", "amd-mi300x8", "ascend-910b-x8", "furiosa-rngd"])
def test_a_device_that_falls_silent_tells_when_it_was_last_read(name: str) -> None:
    model = NodeModel(costless(name), AGENT)
    from_the_start = Fault(kind=FaultKind.LOST, device=0)
    later = Fault(kind=FaultKind.LOST, device=1, begin=7150.0)
    snapshot, _ = model.snapshot(7200.0, WALL_CLOCK + 7200, Ledger(), FaultLog([from_the_start, later]))
    never, once, well, *_ = (device.read_at for device in snapshot.devices)
    assert (never, once, well) == (None, WALL_CLOCK + 7150, WALL_CLOCK + 7200)
    hangs = Trouble(kind=FleetFault.READER_HANG, cluster="c", begin=7190.0)
    snapshot, _ = model.snapshot(7200.0, WALL_CLOCK + 7200, Ledger(), FaultLog([later]), [hangs])
    assert [device.read_at for device in snapshot.devices[1:3]] == [WALL_CLOCK + 7150, WALL_CLOCK + 7190]


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_a_fleet_is_what_the_agent_makes_of_it(
    name: str, tmp_path: Path, native_cache: Path
) -> None:
    spec = costless(name)
    real, made = plain(collected(spec, TIMES, tmp_path, native_cache)), plain(simulated(spec))
    differences = [
        difference
        for part in PARTS
        for difference in compare(in_order(real.get(part, [])), in_order(made.get(part, [])), part)
    ]
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("name", [name for name in NODES if name.startswith("ascend-")])
def test_the_annotation_of_a_simulated_node_is_the_one_that_the_agent_writes(
    name: str, tmp_path: Path, native_cache: Path
) -> None:
    spec = costless(name)
    real = collected(spec, TIMES, tmp_path, native_cache)
    text = npu_metrics(simulated(spec).devices)
    assert text is not None
    assert at_time(text, real.taken_at) == fitted(npu_document(real)).text
    numbers = [entry["phy_id"] for entry in decode_chips(text.replace("~time~", "2026-01-02T03:04:05Z"))]
    assert sorted(numbers) == list(range(spec.device_count))


def test_a_chip_that_does_not_answer_is_unknown_in_the_annotation_of_a_simulated_node() -> None:
    model = NodeModel(costless("ascend-310p"), AGENT)
    hangs = Trouble(kind=FleetFault.READER_HANG, cluster="c", begin=7190.0)
    snapshot, _ = model.snapshot(7200.0, WALL_CLOCK + 7200, Ledger(), FaultLog([]), [hangs])
    text = npu_metrics(snapshot.devices)
    assert text is not None
    assert at_time(text, snapshot.taken_at) == fitted(npu_document(snapshot)).text
    assert text.count('"health":"UNKNOWN"') == len(snapshot.devices)


def in_order(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for item in items:
        if "absent" in item:
            item["absent"] = sorted(item["absent"], key=str)
    names = ("id", "uid", "device", "pid", "device_id", "namespace", "pod", "container", "partition", "kind")
    return sorted(items, key=lambda item: [str(item.get(name)) for name in names])


def compare(real: Any, made: Any, where: str) -> list[str]:
    """What differs, field by field."""
    if isinstance(real, dict) and isinstance(made, dict):
        found = []
        for key in sorted({*real, *made} - NOT_COMPARED):
            if (key in real) != (key in made):
                found.append(f"{where}.{key}: the agent {real.get(key)!r}, the fleet {made.get(key)!r}")
            elif not measured_otherwise(key, real, where):
                found += compare(real[key], made[key], f"{where}.{key}")
        return found
    if isinstance(real, list) and isinstance(made, list):
        if len(real) != len(made):
            return [f"{where}: the agent has {len(real)}, the fleet {len(made)}"]
        pairs = enumerate(zip(real, made, strict=True))
        return [text for place, (a, b) in pairs for text in compare(a, b, f"{where}[{place}]")]
    equal = math.isclose(real, made, rel_tol=1e-6) if isinstance(real, float) else real == made
    return [] if equal else [f"{where}: the agent {real!r}, the fleet {made!r}"]


def measured_otherwise(key: str, real: dict[str, Any], where: str) -> bool:
    """The counters of Furiosa's cores, and shares of their energy, too."""
    if key in BETWEEN_READINGS or (key == "utilization_ratio" and ".partitions" in where):
        return True
    furiosa = real.get("vendor") == "furiosa" or (".cores[" in where and "occupied" in real)
    return (furiosa and key == "utilization_ratio") or (
        key in ("energy_joules", "idle_energy_joules") and str(real.get("device", "")).startswith("furiosa")
    )
