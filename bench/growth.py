"""How the cost of a collection grows with devices and with processes."""

from bench.children import Workshop
from bench.collection import Cost, cost_of_collection, describe_cost
from bench.contracts import Contract, Outcome, Verdict
from bench.nodes import DEVICES, PROCESSES_PER_DEVICE, make_node, with_processes
from bench.tables import Table, times

_DEVICE_STEPS = (1, 8, 64)
_PROCESS_STEPS = (10, 100, 1000, 5000)
_COLUMNS = ("CPU ms", "wall ms", "series", "bytes", "RSS MiB")
_TOLERANCE = 1.25  # what a cost per unit may rise by noise alone
_UNCAPPED = {"max_process_series": "1000000"}


def grow(workshop: Workshop) -> Outcome:
    devices = {
        count: _cost(workshop, f"devices-{count}", count, count * PROCESSES_PER_DEVICE)
        for count in _DEVICE_STEPS
    }
    processes = {
        count: _cost(workshop, f"processes-{count}", DEVICES, count, _UNCAPPED) for count in _PROCESS_STEPS
    }
    capped = _cost(workshop, "capped", DEVICES, _PROCESS_STEPS[-1])
    by_device = Table("Growth with devices", ("devices", *_COLUMNS, "CPU per device, to 8's"))
    usual = devices[DEVICES].cpu / DEVICES
    for count, cost in devices.items():
        by_device.add(str(count), *describe_cost(cost), times(cost.cpu / count / usual))
    by_device.notes = (f"{PROCESSES_PER_DEVICE} processes on each device.",)
    by_process = Table("Growth with processes", ("processes", *_COLUMNS, "CPU per further process, us"))
    before = _PROCESS_STEPS[0]
    for count, cost in processes.items():
        further = "" if count == before else f"{1e6 * _slope(processes, before, count):.0f}"
        by_process.add(str(count), *describe_cost(cost), further)
        before = count
    by_process.add(f"{_PROCESS_STEPS[-1]}, usual cap", *describe_cost(capped), "")
    by_process.notes = (
        f"{DEVICES} devices, no cap on process series but in the last row. Processes are known from earlier "
        "collections.",
    )
    return Outcome(
        [by_device, by_process],
        {Contract.DEVICES: _device_verdict(devices), Contract.PROCESSES: _process_verdict(processes)},
    )


def _cost(
    workshop: Workshop, name: str, devices: int, processes: int, more: dict[str, str] | None = None
) -> Cost:
    node = make_node(workshop.folder / name, with_processes(devices, processes))
    collections = max(3, workshop.effort.collections // 4)
    return cost_of_collection(workshop, {**node.agent_settings(), **(more or {})}, collections)


def _slope(costs: dict[int, Cost], low: int, high: int) -> float:
    return (costs[high].cpu - costs[low].cpu) / (high - low)


def _device_verdict(costs: dict[int, Cost]) -> Verdict:
    factor = costs[64].cpu / 64 / (costs[8].cpu / 8)
    linear = factor <= _TOLERANCE
    return f"{times(factor)} the cost per device at 64 beside 8", linear, linear


def _process_verdict(costs: dict[int, Cost]) -> Verdict:
    factor = _slope(costs, 1000, 5000) / _slope(costs, 100, 1000)
    linear = factor <= _TOLERANCE
    each = 1e6 * _slope(costs, 1000, 5000)
    # Free would be nothing beside what the driver takes to list a process and the page to show it.
    return f"{times(factor)} the cost per process from 1,000 on; {each:.0f} us each", linear, each <= 20
