"""How the cost of a collection grows with devices and with processes."""

from pathlib import Path

from accelscope.attribution.options import AttributionOptions
from accelscope.simulate import SimulatedNode
from bench.attribution import Passes, measure
from bench.children import Workshop
from bench.collection import Cost, cost_of_collection, describe_cost
from bench.contracts import Contract, Outcome, Verdict
from bench.nodes import DEVICES, PROCESSES_PER_DEVICE, make_node, read, with_processes
from bench.tables import Table, times

_COLUMNS = ("CPU ms", "wall ms", "series", "bytes", "RSS MiB")
_TOLERANCE = 1.25  # what a cost per unit may rise by noise alone
_AS_GOOD_AS_FREE = 0.1  # of what a process costs in all
_LEAST_COLLECTIONS = 8
_UNCAPPED = {"max_process_series": "1000000"}


def grow(workshop: Workshop) -> Outcome:
    devices = {
        count: _cost(workshop, _node(workshop, count, count * PROCESSES_PER_DEVICE))
        for count in workshop.effort.devices
    }
    steps = workshop.effort.processes
    nodes = {count: _node(workshop, DEVICES, count) for count in steps}
    processes = {count: _cost(workshop, node, _UNCAPPED) for count, node in nodes.items()}
    capped = _cost(workshop, nodes[steps[-1]])
    attribution = _attribution(nodes[steps[-1]])
    by_device = Table("Growth with devices", ("devices", *_COLUMNS, "CPU per device, to 8's"))
    usual = devices[DEVICES].cpu / DEVICES
    for count, cost in devices.items():
        by_device.add(str(count), *describe_cost(cost), times(cost.cpu / count / usual))
    by_device.notes = (f"{PROCESSES_PER_DEVICE} processes on each device.",)
    by_process = Table("Growth with processes", ("processes", *_COLUMNS, "CPU per further process, us"))
    before = steps[0]
    for count, cost in processes.items():
        further = "" if count == before else f"{1e6 * _slope(processes, before, count):.0f}"
        by_process.add(str(count), *describe_cost(cost), further)
        before = count
    by_process.add(f"{steps[-1]}, usual cap", *describe_cost(capped), "")
    by_process.notes = (
        f"Attribution of it: {_each(attribution.first, attribution)} us of CPU for a new process, "
        f"{_each(attribution.steady, attribution)} us for a known one.",
        f"{DEVICES} devices, no cap on process series but in the last row. Processes are idle, and known "
        "from earlier collections.",
    )
    return Outcome(
        [by_device, by_process],
        {
            Contract.DEVICES: _device_verdict(devices),
            Contract.PROCESSES: _process_verdict(processes, attribution),
        },
    )


def _node(workshop: Workshop, devices: int, processes: int) -> SimulatedNode:
    return make_node(workshop.folder / f"growth-{devices}-{processes}", with_processes(devices, processes))


def _cost(workshop: Workshop, node: SimulatedNode, more: dict[str, str] | None = None) -> Cost:
    collections = max(_LEAST_COLLECTIONS, workshop.effort.collections // 4)
    return cost_of_collection(workshop, {**node.agent_settings(), **(more or {})}, collections)


def _slope(costs: dict[int, Cost], low: int, high: int) -> float:
    return (costs[high].cpu - costs[low].cpu) / (high - low)


def _device_verdict(costs: dict[int, Cost]) -> Verdict:
    *_, low, high = costs
    factor = costs[high].cpu / high / (costs[low].cpu / low)
    linear = factor <= _TOLERANCE
    return f"{times(factor)} the cost per device at {high} beside {low}", linear, linear


def _process_verdict(costs: dict[int, Cost], attribution: Passes) -> Verdict:
    low, *_, middle, high = costs
    each = _slope(costs, low, high)
    factor = each / _slope(costs, low, middle)
    measured = (
        f"{times(factor)} the cost per process at {high} beside {middle}; "
        f"{_each(attribution.steady, attribution)} of {1e6 * each:.0f} us to attribute a known one"
    )
    known = attribution.steady / attribution.processes
    return measured, factor <= _TOLERANCE, known <= _AS_GOOD_AS_FREE * each


def _attribution(node: SimulatedNode) -> Passes:
    options = AttributionOptions(node=node.spec.name, proc=Path(node.agent_settings()["proc_root"]))
    return measure(options, *read(node), rounds=3)


def _each(seconds: float, passes: Passes) -> str:
    return f"{1e6 * seconds / passes.processes:.1f}"
