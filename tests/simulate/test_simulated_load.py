"""Load curves and what follows from them: the same for the same seed, counters that agree with rates."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelscope.simulate import Fault, FaultKind, load_node, read_node, ready_made
from accelscope.simulate.faults import FaultLog
from accelscope.simulate.spec import DEFAULT_PERIOD_SECONDS, LoadCurve, NodeSpec, Shape
from accelscope.simulate.workload import place
from accelscope.vendors.nvidia.simulated.gpu import GpuDynamics, GpuReading, create_gpus
from accelscope.vendors.nvidia.simulated.spec import NvidiaSpec

TIMES = st.floats(0, 1e6)
SPECS = [load_node(name) for name in ready_made("nvidia")]
SHAPES = [LoadCurve(shape, 0.8, DEFAULT_PERIOD_SECONDS[shape], 0.3) for shape in Shape]


def readings(spec: NodeSpec, at: float, faults: FaultLog | None = None) -> list[GpuReading]:
    log = faults or FaultLog(spec.faults)
    placements = [placement for placement in place(spec) if placement.process.spec.vendor == "nvidia"]
    return [
        GpuDynamics(gpu, placements).reading(at, log.of_device(gpu.slot), gpu.slot)
        for gpu in create_gpus(spec.of(NvidiaSpec), spec.seed)
    ]


@pytest.mark.parametrize("curve", SHAPES, ids=lambda curve: curve.shape)
def test_integral_is_that_of_the_curve(curve: LoadCurve) -> None:
    step = 0.01
    summed = 0.0
    for i in range(20_000):
        summed += curve.at((i + 0.5) * step) * step
    assert curve.integral(200.0) - curve.integral(0.0) == pytest.approx(summed, abs=0.02)


@pytest.mark.parametrize("curve", SHAPES, ids=lambda curve: curve.shape)
@given(at=TIMES)
def test_load_stays_between_nothing_and_its_peak(curve: LoadCurve, at: float) -> None:
    assert 0 <= curve.at(at) <= curve.peak + 1e-9


def test_a_process_loads_nothing_outside_its_time() -> None:
    curve = LoadCurve(Shape.STEADY, 0.5, 30, 0, begin=100, until=200)
    assert [curve.at(99), curve.at(200)] == [0, 0]
    assert curve.integral(50) == curve.integral(100)
    assert curve.integral(1000) == curve.integral(200) > curve.integral(150)


@pytest.mark.parametrize("name", ready_made("nvidia"))
def test_same_seed_same_node_and_another_seed_another(name: str) -> None:
    text = load_node(name).text
    assert readings(read_node(text), 77.7) == readings(read_node(text), 77.7)
    other = read_node(text.replace("seed: 81", "seed: 91"))
    uuids = {gpu.gpu.uuid for spec in (read_node(text), other) for gpu in readings(spec, 0)}
    assert len(uuids) == 2 * len(other.of(NvidiaSpec).devices)


def counters(gpu: GpuReading) -> list[int]:
    result = [
        gpu.energy_millijoules,
        gpu.pcie_transmit_bytes,
        gpu.pcie_receive_bytes,
        gpu.pcie_replays,
        gpu.thermal_violation_nanoseconds,
        len(gpu.xids),
    ]
    if gpu.ecc:
        result += [gpu.ecc.volatile_corrected, gpu.ecc.aggregate_corrected, gpu.ecc.volatile_uncorrected]
    for link in gpu.links:
        result += [link.transmit_kib, link.receive_kib, link.replays, link.crc_errors]
    return result


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
@settings(max_examples=15)
@given(times=st.tuples(TIMES, TIMES))
def test_counters_never_decrease(spec: NodeSpec, times: tuple[float, float]) -> None:
    for before, after in zip(readings(spec, min(times)), readings(spec, max(times)), strict=True):
        assert all(b <= a for b, a in zip(counters(before), counters(after), strict=True))


def test_energy_is_the_power_shown_over_time() -> None:
    spec = load_node("nvidia-h100x8")
    begin, seconds = 100, 60
    power = [[gpu.power_average_milliwatts for gpu in readings(spec, begin + i + 1)] for i in range(seconds)]
    first, last = readings(spec, begin), readings(spec, begin + seconds)
    for slot in range(8):
        joules = sum(row[slot] for row in power)  # mW over one second each: mJ
        assert last[slot].energy_millijoules - first[slot].energy_millijoules == pytest.approx(
            joules, abs=200
        )


@settings(max_examples=20)
@given(at=TIMES)
def test_readings_are_possible(at: float) -> None:
    for spec in SPECS:
        for gpu in readings(spec, at):
            assert 0 <= gpu.utilization_percent <= 100
            assert gpu.memory_used_bytes + gpu.memory_reserved_bytes <= gpu.memory_total_bytes
            assert gpu.power_average_milliwatts <= 1000 * gpu.gpu.spec.power_limit_watts
            assert gpu.temperature_celsius <= gpu.gpu.card.temperature.slowdown + 2
            if not gpu.gpu.partitioned:
                parts = sum(process.sm or 0 for process in gpu.processes)
                assert abs(parts - gpu.utilization_percent) <= len(gpu.processes)


def test_temperature_lags_behind_power() -> None:
    spec = read_node(
        "nvidia: {devices: [{model: h100-80gb}]}\n"
        "processes: [{name: burn, device: 0, from: 1000, load: {shape: steady, level: 0.9}}]\n"
    )
    cold, early, late = (readings(spec, at)[0] for at in (999, 1003, 1120))
    assert early.power_average_milliwatts == pytest.approx(late.power_average_milliwatts, rel=0.15)
    assert cold.temperature_celsius < early.temperature_celsius < late.temperature_celsius - 10


def test_counts_of_a_fault_stay_when_it_ends_and_go_on_when_it_returns() -> None:
    spec = load_node("nvidia-h100x8")
    storm = Fault(kind=FaultKind.ECC_STORM, device=4)
    log = FaultLog()
    shown: list[tuple[int, int]] = []
    for at, current in (
        (10, ()),
        (20, (storm,)),
        (30, (storm,)),
        (40, ()),
        (50, ()),
        (60, (storm,)),
        (70, ()),
    ):
        log.observe(current, at)
        ecc = readings(spec, at, log)[4].ecc
        assert ecc is not None
        shown.append((ecc.volatile_corrected, ecc.volatile_uncorrected))
    assert shown == sorted(shown)
    assert shown[0] == (0, 0) != shown[1]
    assert shown[3] == shown[4] != shown[5]
    assert readings(spec, 70, log)[3].ecc == readings(spec, 70)[3].ecc


def test_processes_that_want_more_than_a_device_share_it() -> None:
    spec = read_node(
        "nvidia: {devices: [{model: t4}]}\n"
        "processes: [{name: greedy, device: 0, count: 5, load: {shape: steady, level: 0.9}}]\n"
    )
    [gpu] = readings(spec, 100)
    assert 90 <= gpu.utilization_percent <= 100
    assert math.isclose(sum(p.placement.curve.peak for p in gpu.processes), 0.98)


def test_pids_differ_and_do_not_depend_on_other_workloads() -> None:
    crowd = "nvidia: {devices: [{model: t4}]}\nprocesses: [{name: a, count: 3000, memory: 1MiB}"
    pids = [p.process.pid for p in place(read_node(crowd + "]\n"))]
    assert len(set(pids)) == 3000
    with_more = [p.process.pid for p in place(read_node(crowd + ", {name: b}]\n"))]
    assert with_more[:3000] == pids
