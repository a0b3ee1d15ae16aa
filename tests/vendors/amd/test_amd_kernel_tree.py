"""The files of simulated AMD nodes in the layout and formats of the kernel, which AMD's programs need."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.costless import costless
from tests.vendors.amd import metrics_tables

from accelscope.simulate import Fault, FaultKind, SimulatedNode
from accelscope.vendors.amd.simulated.driver import AmdDriver
from accelscope.vendors.amd.simulated.gpu import GpuReading

NODES = ("amd-mi250", "amd-mi300-cpx", "amd-mi300x8", "amd-radeon")
CAUSES = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
Build = Callable[..., SimulatedNode]


@pytest.fixture
def build(tmp_path: Path, native_cache: Path) -> Build:
    def make(node: str, at: float = 60.0) -> SimulatedNode:
        simulated = SimulatedNode(costless(node), tmp_path / "node", cache=native_cache)
        simulated.build(at)
        return simulated

    return make


def device(node: SimulatedNode, slot: int) -> Path:
    return node.folder / "sys/bus/pci/devices" / readings(node)[slot].gpu.address


def readings(node: SimulatedNode) -> tuple[GpuReading, ...]:
    return node.readings(AmdDriver)


def properties(folder: Path) -> dict[str, int]:
    lines = (folder / "properties").read_text().splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines)}


def table(node: SimulatedNode, slot: int) -> Any:
    """gpu_metrics as a C program sees it."""
    return metrics_tables.parse((device(node, slot) / "gpu_metrics").read_bytes())


@pytest.mark.parametrize("name", NODES)
def test_links_are_relative_and_lead_to_existing_files(build: Build, name: str) -> None:
    sys = build(name).folder / "sys"
    links = [Path(place, each) for place, folders, files in os.walk(sys) for each in (*folders, *files)]
    links = [path for path in links if path.is_symlink()]
    assert links
    for path in links:
        assert not path.readlink().is_absolute()
        assert path.resolve(strict=True).is_relative_to(sys)


def test_a_gpu_is_found_from_its_bus_driver_class_and_device_number(build: Build) -> None:
    node = build("amd-mi300x8")
    sys = node.folder / "sys"
    for slot, reading in enumerate(readings(node)):
        real = sys / reading.gpu.folder.removeprefix("sys/")
        assert real.parts[-3:-1] == ("devices", f"pci{real.name[:7]}")
        card, render = reading.gpu.drm_card, f"renderD{reading.gpu.first_minor}"
        [hwmon] = (real / "hwmon").iterdir()
        for path in (
            device(node, slot),
            sys / "bus/pci/drivers/amdgpu" / real.name,
            sys / f"class/drm/{card}/device",
            sys / f"class/drm/{render}/device",
            sys / f"class/hwmon/{hwmon.name}/device",
            sys / f"dev/char/226:{reading.gpu.first_minor}/device",
        ):
            assert path.resolve() == real, path
        assert (real / "subsystem").resolve() == sys / "bus/pci"
        assert (sys / f"class/drm/{render}/dev").read_text() == f"226:{render.removeprefix('renderD')}\n"
        assert (hwmon / "name").read_text() == "amdgpu\n"
        assert (hwmon / "power1_label").read_text() == "PPT\n"
        space = (real / "config").read_bytes()
        assert [int.from_bytes(space[at : at + 2], "little") for at in (0, 2, 0x2C)] == [
            0x1002,
            0x74A1,
            0x1002,
        ]
    assert (sys / "module/amdgpu/initstate").read_text() == "live\n"
    assert (sys / "class/drm/card0/device/vendor").read_text() == "0x1a03\n"


@pytest.mark.parametrize(
    ("node", "revisions"),
    [
        ("amd-mi250", [(1, 3)]),
        ("amd-radeon", [(1, 3), (2, 1)]),
        ("amd-mi300x8", [(1, 7)]),
        ("amd:\n  driver_version: '6.8.5'\n  devices: [{model: mi300x}]\n", [(1, 5)]),
        (
            "amd:\n  in_kernel_driver: true\n  kernel_release: 6.10.3\n  devices: [{model: mi300x}]\n",
            [(1, 5)],
        ),
        (
            "amd:\n  in_kernel_driver: true\n  devices: [{model: mi300x}]\n  kernel_release: '6.14'\n",
            [(1, 7)],
        ),
    ],
)
def test_the_version_of_gpu_metrics_depends_on_chip_and_driver(
    build: Build, node: str, revisions: list[tuple[int, int]]
) -> None:
    made = build(node)
    tables = [table(made, slot) for slot, gpu in enumerate(readings(made)) if not gpu.suspended]
    assert sorted({(each.format_revision, each.content_revision) for each in tables}) == revisions


@pytest.mark.parametrize(
    "node", ["amd-mi300x8", "amd:\n  driver_version: '6.8.5'\n  devices: [{model: mi300x}]\n"]
)
def test_gpu_metrics_agrees_with_the_other_files(build: Build, node: str) -> None:
    made = build(node)
    for slot, reading in enumerate(readings(made)):
        metrics, folder = table(made, slot), device(made, slot)
        [hwmon] = (folder / "hwmon").iterdir()
        assert metrics.temperature_hotspot * 1000 == int((hwmon / "temp2_input").read_text())
        assert metrics.temperature_mem * 1000 == int((hwmon / "temp3_input").read_text())
        assert metrics.curr_socket_power * 10**6 == int((hwmon / "power1_input").read_text())
        assert metrics.average_gfx_activity == int((folder / "gpu_busy_percent").read_text())
        assert metrics.average_umc_activity == int((folder / "mem_busy_percent").read_text())
        assert metrics.pcie_replay_count_acc == int((folder / "pcie_replay_count").read_text())
        assert f"{metrics.current_gfxclk[7]}Mhz *" in (folder / "pp_dpm_sclk").read_text()
        assert f"{metrics.current_uclk}Mhz *" in (folder / "pp_dpm_mclk").read_text()
        assert metrics.energy_accumulator == reading.energy_microjoules * 2**16 // 10**6
        assert (metrics.pcie_link_width, metrics.pcie_link_speed) == (16, 320)


def test_an_apu_reports_hundredths_and_milliwatts(build: Build) -> None:
    node = build("amd-radeon")
    metrics, reading = table(node, 2), readings(node)[2]
    assert metrics.temperature_gfx == reading.edge_millicelsius // 10
    assert metrics.average_gfx_activity == reading.busy_percent * 100
    assert metrics.average_socket_power == reading.power_microwatts // 1000


def test_a_radeon_counts_energy_in_32_bits_or_not_at_all(build: Build) -> None:
    """If the firmware does not count, the driver writes UINT_MAX into the 64 bits."""
    node = build("amd-radeon")
    counted = readings(node)[0].energy_microjoules * 2**16 // 10**6
    assert counted >= 2**32
    assert table(node, 0).energy_accumulator == counted % 2**32
    assert table(build("amd:\n  devices: [{model: rx-7900-xtx}]\n"), 0).energy_accumulator == 2**32 - 1


def test_partitions_have_their_own_activity_in_gpu_metrics(build: Build) -> None:
    node = build("amd-mi300-cpx")
    for slot, reading in enumerate(readings(node)):
        metrics = table(node, slot)
        assert metrics.num_partition == len(reading.parts) == 8
        for part, stats in zip(reading.parts, metrics.xcp_stats, strict=True):
            assert list(stats.gfx_busy_inst) == [part.busy_percent] + [0xFFFF_FFFF] * 7
            assert stats.gfx_busy_acc[0] == part.activity_sum
            assert list(stats.vcn_busy) == [0] + [0xFFFF] * 3


@pytest.mark.parametrize("name", ["amd-mi300x8", "amd-mi250"])
def test_sums_in_gpu_metrics_grow_by_the_percents_of_each_cycle(build: Build, name: str) -> None:
    node = build(name, 100.0)
    before = [table(node, slot) for slot in range(len(readings(node)))]
    sums = [0.0] * len(before)
    for second in range(1, 11):
        node.write(100.0 + second)
        sums = [total + gpu.busy_percent for total, gpu in zip(sums, readings(node), strict=True)]
    for slot, (old, total) in enumerate(zip(before, sums, strict=True)):
        new = table(node, slot)
        cycles = (new.firmware_timestamp - old.firmware_timestamp) // 10**5
        assert cycles == 10_000
        assert (new.gfx_activity_acc - old.gfx_activity_acc) / cycles == pytest.approx(total / 10, abs=1)
        assert new.mem_activity_acc >= old.mem_activity_acc
        assert new.system_clock_counter - old.system_clock_counter == 10 * 10**9
        if name == "amd-mi300x8":
            assert new.accumulation_counter - old.accumulation_counter == cycles
            moved = new.pcie_bandwidth_acc - old.pcie_bandwidth_acc
            assert moved == 40 * (new.mem_activity_acc - old.mem_activity_acc)


@pytest.mark.parametrize("cause", [*CAUSES, None])
def test_throttling_adds_to_the_residency_of_its_cause(build: Build, cause: str | None) -> None:
    """The fault `hot` throttles by temperature."""
    node = build("amd-mi300x8", 100.0)
    kind = FaultKind.THROTTLED if cause else FaultKind.HOT
    before, clock = residencies(node), readings(node)[2].sclk_mhz
    node.set_faults([Fault(kind=kind, device=2, cause=cause)])
    node.write(104.0)
    during = residencies(node)
    node.set_faults([])
    node.write(110.0)
    grown = {name: during[name] - before[name] for name in CAUSES}
    assert grown == {**dict.fromkeys(CAUSES, 0), cause or "socket_thermal": 4000}
    assert residencies(node) == during
    assert readings(node)[2].sclk_mhz == clock


def residencies(node: SimulatedNode) -> dict[str, int]:
    metrics = table(node, 2)
    names = ("prochot", "ppt", "socket_thm", "vr_thm", "hbm_thm")
    return {
        cause: getattr(metrics, f"{name}_residency_acc") for cause, name in zip(CAUSES, names, strict=True)
    }


@pytest.mark.parametrize(("slot_node", "hot"), [("amd-mi250", 32), ("amd-radeon", 36)])
def test_throttling_sets_a_bit_in_older_tables(build: Build, slot_node: str, hot: int) -> None:
    node = build(slot_node)
    assert table(node, 0).indep_throttle_status == table(node, 0).throttle_status == 0
    node.set_faults([Fault(kind=FaultKind.HOT, device=0)])
    assert table(node, 0).indep_throttle_status == 1 << hot
    node.set_faults([Fault(kind=FaultKind.THROTTLED, device=0, cause="ppt")])
    assert table(node, 0).indep_throttle_status == 1
    assert table(node, 0).throttle_status


def test_both_ends_of_a_link_agree(build: Build) -> None:
    node = build("amd-mi300x8")
    ports: dict[tuple[int, int], tuple[int, int]] = {}
    for slot in range(8):
        lines = (device(node, slot) / "xgmi_port_num").read_text().splitlines()
        found = [re.fullmatch(r"(\w\w):(\w\w) ->  (\w\w):(\w\w)", line) for line in lines]
        ports |= {(int(m[1], 16), int(m[2], 16)): (int(m[3], 16), int(m[4], 16)) for m in found if m}
    assert len(ports) == 8 * 7
    for (gpu, port), (peer, theirs) in ports.items():
        assert ports[peer, theirs] == (gpu, port)
        own, other = table(node, gpu - 1), table(node, peer - 1)
        assert own.xgmi_read_data_acc[port] == other.xgmi_write_data_acc[theirs]
        assert own.xgmi_link_status[port] == 1
    assert table(node, 0).xgmi_read_data_acc[7] == 2**64 - 1


def test_the_hive_has_a_decimal_id_and_links_to_its_gpus(build: Build) -> None:
    node = build("amd-mi300x8")
    ids = {(device(node, slot) / "xgmi_hive_info/xgmi_hive_id").read_text() for slot in range(8)}
    topology = node.folder / "sys/class/kfd/kfd/topology/nodes"
    hives = {properties(topology / str(number))["hive_id"] for number in range(2, 10)}
    assert ids == {f"{hive}\n" for hive in hives}
    assert len(ids) == 1
    for slot in range(8):
        assert (device(node, 0) / f"xgmi_hive_info/node{slot + 1}").resolve() == device(node, slot).resolve()


def test_the_compute_driver_has_all_properties_in_the_order_of_the_kernel(build: Build) -> None:
    node = build("amd-mi300x8")
    topology = node.folder / "sys/class/kfd/kfd/topology/nodes"
    cpu, gpu = properties(topology / "0"), properties(topology / "2")
    assert list(gpu)[:7] == [
        "cpu_cores_count",
        "simd_count",
        "mem_banks_count",
        "caches_count",
        "io_links_count",
        "p2p_links_count",
        "cpu_core_id_base",
    ]
    assert list(gpu)[-3:] == ["unique_id", "num_xcc", "max_engine_clk_ccompute"]
    assert "num_xcc" not in cpu
    assert gpu["array_count"] * gpu["cu_per_simd_array"] >= gpu["simd_count"] // gpu["simd_per_cu"] == 304
    assert (gpu["simd_arrays_per_engine"], gpu["num_xcc"], gpu["wave_front_size"]) == (1, 8, 64)
    assert (topology / "2/name").read_text() == "ip discovery\n"


@pytest.mark.parametrize("name", NODES)
def test_links_of_the_compute_driver_lead_to_cpus_and_gpus_of_the_hive(build: Build, name: str) -> None:
    topology = build(name).folder / "sys/class/kfd/kfd/topology/nodes"
    nodes = {int(path.name): properties(path) for path in topology.iterdir()}
    for number, own in nodes.items():
        links = [properties(path) for path in (topology / f"{number}/io_links").iterdir()]
        assert len(links) == own["io_links_count"]
        assert (topology / f"{number}/p2p_links").is_dir()
        for link in links:
            peer = nodes[link["node_to"]]
            both_gpus = bool(own["simd_count"] and peer["simd_count"])
            assert link["node_from"] == number != link["node_to"]
            assert (link["type"] == 11) == both_gpus
            assert not both_gpus or own["hive_id"] == peer["hive_id"] != 0


def test_a_radeon_counts_two_simds_per_compute_unit(build: Build) -> None:
    gpu = properties(build("amd-radeon").folder / "sys/class/kfd/kfd/topology/nodes/1")
    assert (gpu["simd_count"], gpu["simd_per_cu"], gpu["wave_front_size"]) == (192, 2, 32)


def test_a_compute_process_has_a_queue_on_each_gpu_that_it_uses(build: Build) -> None:
    node = build("amd-mi300x8")
    used: dict[int, set[int]] = {}
    for reading in readings(node):
        for part in reading.parts:
            for process in part.processes:
                used.setdefault(process.pid, set()).add(part.part.gpu_id)
    for pid, gpu_ids in used.items():
        folder = node.folder / f"sys/class/kfd/kfd/proc/{pid}"
        queues = [path for path in (folder / "queues").iterdir() if (path / "type").read_text() == "0\n"]
        assert {int((path / "gpuid").read_text()) for path in queues} == gpu_ids
        pasid = (folder / "pasid").read_text()
        infos = [path.read_text() for path in (node.folder / f"proc/{pid}/fdinfo").iterdir()]
        assert any(f"\npasid:\t{pasid}" in text for text in infos)
        for gpu in readings(node):
            number = gpu.parts[0].part.gpu_id
            assert (folder / f"sdma_{number}").exists()
            assert (folder / f"stats_{number}/evicted_ms").read_text() == "0\n"
        assert (node.folder / f"proc/{pid}/exe").readlink().name


def test_only_an_instinct_counts_the_waves_of_processes(build: Build) -> None:
    proc = build("amd-radeon").folder / "sys/class/kfd/kfd/proc"
    assert list(proc.glob("*/stats_*/evicted_ms"))
    assert not list(proc.glob("*/stats_*/cu_occupancy"))


def test_the_folder_of_processes_remains_without_processes(build: Build) -> None:
    node = build(
        "amd:\n  devices: [{model: mi300x}]\nprocesses:\n  - {device: 0, from: 10, until: 20}\n", 15.0
    )
    proc = node.folder / "sys/class/kfd/kfd/proc"
    assert list(proc.iterdir())
    node.write(30.0)
    assert proc.is_dir()
    assert not list(proc.iterdir())


def test_errors_have_the_formats_of_the_driver(build: Build) -> None:
    node = build("amd-mi300x8")
    node.set_faults([Fault(kind=FaultKind.ECC_STORM, device=1)])
    node.write(250.0)
    ras = device(node, 1) / "ras"
    pages = (ras / "gpu_vram_bad_pages").read_text().splitlines()
    assert pages[0] == "0x0007f000 : 0x00001000 : R"
    assert re.fullmatch(r"feature mask: 0x[0-9a-f]+\n", (ras / "features").read_text())
    mask = int((ras / "features").read_text().split()[-1], 16)
    assert mask & 1
    assert not mask >> 4 & 1  # athub has no counters
    assert not list((ras).glob("athub*"))


def test_a_radeon_has_no_error_counters(build: Build) -> None:
    node = build("amd-radeon")
    assert not (device(node, 0) / "ras").exists()


def test_partitions_have_a_part_of_the_drivers_memory(build: Build) -> None:
    node = build("amd-mi300-cpx")
    banks = list((node.folder / "sys/class/kfd/kfd/topology/nodes").glob("*/mem_banks/0/used_memory"))
    assert len(banks) == 16
    assert all(int(bank.read_text()) > 0 for bank in banks)
    total = sum(int((device(node, slot) / "mem_info_vram_used").read_text()) for slot in (0, 1))
    assert sum(int(bank.read_text()) for bank in banks) == total
