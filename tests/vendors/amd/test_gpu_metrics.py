"""The driver's table `gpu_metrics`: each version, and what its values replace."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.vendors.amd.amd_tree import HEALTHY, Clock, lay_out_gpu, only_device, reader_of, reasons, write
from tests.vendors.amd.metrics_tables import VERSIONS, WITH_ENERGY, Version, table

from accelscope.model import Device, ErrorCount, HealthState, Link
from accelscope.vendors.amd.gpu_metrics import parse_table
from accelscope.vendors.amd.reader import AmdReader

HEAT: Mapping[str, Any] = {"temperature_hotspot": 71, "temperature_mem": 55, "temperature_vrsoc": 44}
USE: Mapping[str, Any] = {"average_gfx_activity": 37, "average_umc_activity": 12}
LINK: Mapping[str, Any] = {"pcie_link_width": 8, "pcie_link_speed": 160}
SERVER_CLOCKS: Mapping[str, Any] = {
    "current_gfxclk": [1900, 1800],
    "current_socclk": [28],
    "current_vclk0": [29],
    "current_dclk0": [22],
    "current_uclk": 1300,
}
SERVER: Mapping[str, Any] = {
    **HEAT,
    **USE,
    **LINK,
    **SERVER_CLOCKS,
    "curr_socket_power": 612,
    "energy_accumulator": 3 << 15,
    "pcie_bandwidth_inst": 800,
}
DEDICATED: Mapping[str, Any] = {
    **HEAT,
    **USE,
    **LINK,
    "temperature_edge": 61,
    "average_mm_activity": 5,
    "average_socket_power": 215,
    "current_gfxclk": 2500,
    "current_socclk": 1000,
    "current_uclk": 1249,
    "current_vclk0": 0,
    "current_dclk0": 0,
}
APU: Mapping[str, Any] = {
    "temperature_gfx": 4550,
    "temperature_soc": 4125,
    "average_gfx_activity": 37,
    "average_socket_power": 15000,
}
APU_CLOCKS = {"current_gfxclk": 800, "current_socclk": 600, "current_uclk": 2400, "current_fclk": 1200}
CYCLES: Mapping[str, Any] = dict.fromkeys(
    (
        "prochot_residency_acc",
        "ppt_residency_acc",
        "socket_thm_residency_acc",
        "vr_thm_residency_acc",
        "hbm_thm_residency_acc",
    ),
    7,
)
DIES = {"gfx_busy_inst": [10, 30]}


class Gpu:
    """A GPU with files and a table, and its reader."""

    def __init__(self, root: Path, files: Mapping[str, str] = HEALTHY, **place: Any) -> None:
        self.clock = Clock()
        self.folder = lay_out_gpu(root, files, **place)
        self.reader: AmdReader = reader_of(root, self.clock)

    def write(self, content: bytes) -> None:
        (self.folder / "gpu_metrics").write_bytes(content)

    def read(self, content: bytes | None = None) -> Device:
        if content is not None:
            self.write(content)
        [key] = self.reader.survey().keys
        return self.reader.read(key).device


def sensors(device: Device) -> dict[str, float]:
    return {sensor.name: sensor.celsius for sensor in device.sensors}


def clocks(device: Device) -> dict[str, float | None]:
    return {clock.domain: clock.hertz for clock in device.clocks}


@pytest.mark.parametrize("version", [(1, 0), (1, 1), (1, 2), (1, 3)])
def test_tables_of_older_chips_are_read(tmp_path: Path, version: Version) -> None:
    device = Gpu(tmp_path).read(table(version, **DEDICATED))
    assert sensors(device) == {"edge": 61, "junction": 71, "memory": 55, "vrsoc": 44}
    assert (device.temperature_celsius, device.power_watts) == (61.0, 215.0)
    assert (device.utilization_ratio, device.memory_utilization_ratio) == (0.37, 0.12)
    assert device.decoder_utilization_ratio == 0.05
    assert clocks(device) == {"graphics": 2.5e9, "soc": 1e9, "memory": 1.249e9, "video": 0.0, "data": 0.0}
    assert device.pcie is not None
    assert (device.pcie.width, device.pcie.generation) == (8, 4)


@pytest.mark.parametrize("version", [(1, 4), (1, 5), (1, 6), (1, 7), (1, 8)])
def test_tables_of_server_chips_are_read(tmp_path: Path, version: Version) -> None:
    device = Gpu(tmp_path, {"gpu_busy_percent": "12"}).read(table(version, **SERVER))
    assert sensors(device) == {"junction": 71, "memory": 55, "vrsoc": 44}
    assert (device.temperature_celsius, device.power_watts, device.energy_joules) == (71.0, 612.0, 1.5)
    assert (device.utilization_ratio, device.memory_utilization_ratio) == (0.37, 0.12)
    assert clocks(device) == {"graphics": 1.9e9, "soc": 28e6, "memory": 1.3e9, "video": 29e6, "data": 22e6}
    assert [(core.index, core.clock_hertz) for core in device.cores] == [(0, 1.9e9), (1, 1.8e9)]
    assert device.pcie is not None
    assert (device.pcie.width, device.pcie.generation, device.pcie.bytes_per_second) == (8, 4, 1e8)


@pytest.mark.parametrize("version", [version for version in VERSIONS if version[0] == 2])
def test_temperatures_and_clocks_of_apus_are_read(tmp_path: Path, version: Version) -> None:
    """The units of their power and activity depend on the chip, so these values come from other files."""
    device = Gpu(tmp_path).read(table(version, **APU, **APU_CLOCKS))
    assert (sensors(device)["edge"], sensors(device)["soc"]) == (45.5, 41.25)
    assert clocks(device) == {"graphics": 8e8, "soc": 6e8, "memory": 2.4e9, "fabric": 1.2e9}
    assert (device.utilization_ratio, device.power_watts) == (0.12, 61.0)


def test_the_table_of_newer_apus_is_read(tmp_path: Path) -> None:
    average = {"average_gfxclk": 800, "average_socclk": 600, "average_uclk": 2400, "average_fclk": 1200}
    device = Gpu(tmp_path).read(table((3, 0), **APU, **average))
    assert (sensors(device)["edge"], sensors(device)["soc"]) == (45.5, 41.25)
    assert clocks(device) == {"graphics": 8e8, "soc": 6e8, "memory": 2.4e9, "fabric": 1.2e9}


@pytest.mark.parametrize("version", VERSIONS)
def test_values_that_were_not_measured_come_from_the_files(tmp_path: Path, version: Version) -> None:
    without = Gpu(tmp_path / "1").read()
    assert Gpu(tmp_path / "2").read(table(version)) == without


def test_a_temperature_voltage_and_power_of_zero_were_not_measured(tmp_path: Path) -> None:
    zeros = dict.fromkeys(("temperature_edge", "temperature_vrmem", "voltage_gfx", "average_socket_power"), 0)
    device = Gpu(tmp_path).read(table((1, 3), **zeros, energy_accumulator=0))
    assert (device.temperature_celsius, device.power_watts, device.energy_joules) == (41.0, 61.0, None)
    assert device.rails == ()
    assert "vrmem" not in sensors(device)


@pytest.mark.parametrize(
    "values",
    [
        {"average_gfx_activity": 101, "current_gfxclk": 60001, "temperature_edge": 251},
        {"pcie_link_width": 6, "pcie_link_speed": 4},  # numbers of levels instead of lanes and GT/s
    ],
)
def test_a_value_beyond_its_limits_comes_from_the_files(tmp_path: Path, values: dict[str, int]) -> None:
    files = {**HEALTHY, "current_link_speed": "16.0 GT/s PCIe", "current_link_width": "16"}
    without = Gpu(tmp_path / "1", files).read()
    assert Gpu(tmp_path / "2", files).read(table((1, 3), **values)) == without


def _with_header(content: bytes, size: int | None = None, version: Version = (1, 7)) -> bytes:
    size = len(content) if size is None else size
    return bytes((size & 0xFF, size >> 8, *version)) + content[4:]


COMPLETE = table((1, 7), **SERVER)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xff",
        COMPLETE[:-1],
        COMPLETE[:30],
        _with_header(COMPLETE, 2200),
        _with_header(COMPLETE, version=(1, 6)),  # the size of another version
        _with_header(COMPLETE, version=(1, 9)),  # a list of attributes
        _with_header(COMPLETE, version=(2, 5)),
        _with_header(COMPLETE, version=(255, 255)),
        b"\xff" * 2208,
    ],
)
def test_a_table_of_unknown_layout_is_not_read(tmp_path: Path, content: bytes) -> None:
    assert parse_table(content) is None
    device = Gpu(tmp_path).read(content)
    assert (device.utilization_ratio, device.power_watts) == (0.12, 61.0)
    assert (device.energy_joules, reasons(device)["energy_joules"]) == (None, "unreadable")


def hbm(version: Version) -> dict[str, Any]:
    """Temperatures of HBM, in the tables that have a place for them."""
    return {"temperature_hbm": [60] * 4} if (1, 0) < version < (1, 4) else {}


@pytest.mark.parametrize("version", WITH_ENERGY)
def test_energy_is_read_with_every_reading_of_the_device(tmp_path: Path, version: Version) -> None:
    gpu = Gpu(tmp_path)
    for joules in (3.0, 3.5, 90_000.25):
        device = gpu.read(table(version, **hbm(version), energy_accumulator=int(joules * 65536)))
        assert device.energy_joules == joules


@pytest.mark.parametrize(
    ("version", "count"), [((1, 3), 0), ((1, 3), 2**32 - 1), ((1, 7), 2**64 - 1), ((1, 0), 7 << 16)]
)
def test_a_chip_that_does_not_count_energy_has_none(tmp_path: Path, version: Version, count: int) -> None:
    device = Gpu(tmp_path).read(table(version, **hbm(version), energy_accumulator=count))
    assert device.energy_joules is None


@pytest.mark.parametrize("version", [(1, 1), (1, 2), (1, 3)])
def test_an_energy_counter_of_32_bits_is_not_published(tmp_path: Path, version: Version) -> None:
    """It wraps at 65,536 J, which a Radeon card uses in minutes. Only chips with HBM have 64 bits."""
    device = Gpu(tmp_path).read(table(version, energy_accumulator=7 << 16, average_socket_power=215))
    assert (device.energy_joules, reasons(device)["energy_joules"]) == (None, "not_supported")
    assert device.power_watts == 215.0


def test_the_energy_of_a_module_with_two_dies_is_published_once(tmp_path: Path) -> None:
    for number in range(2):
        identity = {"device": "0x740c", "unique_id": f"{number + 1}", "serial_number": "692140000412"}
        folder = lay_out_gpu(tmp_path, {**HEALTHY, **identity}, card=number, pci=f"0000:1{number}:00.0")
        (folder / "gpu_metrics").write_bytes(table((1, 3), **hbm((1, 3)), energy_accumulator=5 << 16))
    reader = reader_of(tmp_path)
    devices = [reader.read(key).device for key in reader.survey().keys]
    assert [device.energy_joules for device in devices] == [5.0, None]
    assert reasons(devices[1])["energy_joules"] == "shared"


@pytest.mark.parametrize(
    ("content", "reason"),
    [(table((1, 7)), "no_sample"), (b"", "unreadable"), (None, "not_supported")],
    ids=["without values", "unreadable", "missing"],
)
def test_a_value_of_the_table_comes_from_no_other_source_afterwards(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    gpu = Gpu(tmp_path)
    assert gpu.read(COMPLETE).power_watts == 612.0
    if content is None:
        (gpu.folder / "gpu_metrics").unlink()
    device = gpu.read(content)
    assert (device.power_watts, device.utilization_ratio, device.energy_joules) == (None, None, None)
    assert {reasons(device)[name] for name in ("power_watts", "utilization_ratio", "energy_joules")} == {
        reason
    }
    assert gpu.read(COMPLETE).power_watts == 612.0


def test_files_of_values_in_the_table_are_not_read(tmp_path: Path) -> None:
    names = ("gpu_busy_percent", "mem_busy_percent", "hwmon/hwmon7/temp2_input", "hwmon/hwmon7/power1_input")
    gpu = Gpu(tmp_path, dict.fromkeys(names, "1") | {"hwmon/hwmon7/temp2_label": "junction"})
    for name in names:
        (gpu.folder / name).unlink()
        os.mkfifo(gpu.folder / name)  # reading it blocks forever
    assert gpu.read(COMPLETE).power_watts == 612.0


def test_clock_levels_and_limits_are_read_once_a_minute(tmp_path: Path) -> None:
    files = {**HEALTHY, "pp_dpm_sclk": "0: 500Mhz\n1: 2100Mhz *", "hwmon/hwmon7/power1_cap_max": "750000000"}
    gpu = Gpu(tmp_path, files)

    def highest() -> tuple[float | None, float | None]:
        device = gpu.read(COMPLETE)
        [clock] = [clock for clock in device.clocks if clock.domain == "graphics"]
        assert clock.hertz == 1.9e9
        return clock.max_hertz, device.power_limit_max_watts

    assert highest() == (2.1e9, 750.0)
    changed = {"pp_dpm_sclk": "0: 500Mhz *\n1: 1700Mhz", "hwmon/hwmon7/power1_cap_max": "600000000"}
    write(gpu.folder, changed)
    gpu.clock.now += 59
    assert highest() == (2.1e9, 750.0)
    gpu.clock.now += 2
    assert highest() == (1.7e9, 600.0)
    write(gpu.folder, files)
    gpu.clock.now -= 1000  # the clock of the node was set
    assert highest() == (2.1e9, 750.0)


BITS = {
    "ppt": [0, 1, 2, 3, 4, 5, 6, 7, 56],
    "tdc": [*range(16, 24)],
    "socket_thermal": [32, 33, 34, 35, 36, 37, 42, 43],
    "vr_thermal": [38, 39, 40, 41, 44, 45],
    "prochot": [46, 47],
    "reliability": [57],
}


@pytest.mark.parametrize("version", [(1, 3), (2, 2), (2, 3), (2, 4)])
@pytest.mark.parametrize("reason", BITS)
def test_bits_of_the_throttle_status_are_reasons(tmp_path: Path, version: Version, reason: str) -> None:
    gpu = Gpu(tmp_path)
    for bit in BITS[reason]:
        device = gpu.read(table(version, indep_throttle_status=1 << bit))
        assert {t.reason for t in device.throttles} == BITS.keys()
        assert [t.reason for t in device.throttles if t.active] == [reason]


def test_hot_memory_has_its_own_reason_on_a_chip_with_hbm(tmp_path: Path) -> None:
    gpu = Gpu(tmp_path)
    content = table((1, 3), indep_throttle_status=1 << 34, temperature_hbm=[60, 61, 62, 63])
    device = gpu.read(content)
    assert [t.reason for t in device.throttles if t.active] == ["hbm_thermal"]
    assert device.health.reason == "throttled by heat or power supply: hbm_thermal"
    assert [sensors(device)[f"hbm{number}"] for number in range(4)] == [60, 61, 62, 63]


@pytest.mark.parametrize("version", [(1, 1), (1, 2), (1, 4), (1, 5), (2, 1)])
def test_a_throttle_status_that_depends_on_the_chip_is_not_read(tmp_path: Path, version: Version) -> None:
    assert Gpu(tmp_path).read(table(version, throttle_status=0xFF)).throttles == ()


def active(device: Device) -> list[str]:
    return [throttle.reason for throttle in device.throttles if throttle.active]


@pytest.mark.parametrize("version", [(1, 6), (1, 7), (1, 8)])
def test_a_reason_is_active_if_its_cycles_increased_since_the_last_reading(
    tmp_path: Path, version: Version
) -> None:
    gpu = Gpu(tmp_path)

    def read(cycles: int, **changed: int) -> Device:
        return gpu.read(table(version, **{**CYCLES, **changed}, accumulation_counter=cycles))

    assert read(1000).throttles == ()  # nothing to compare with
    device = read(2000, socket_thm_residency_acc=8)
    assert active(device) == ["socket_thermal"]
    assert len(device.throttles) == 5
    assert device.health.state is HealthState.WARNING
    assert active(read(2000, socket_thm_residency_acc=8)) == ["socket_thermal"]  # no new measurement
    assert active(read(3000, socket_thm_residency_acc=8)) == []
    assert read(10).throttles == ()  # the driver was reloaded
    assert active(read(20, ppt_residency_acc=9)) == ["ppt"]
    lacking = read(30, ppt_residency_acc=2**32 - 1)
    assert "ppt" not in {throttle.reason for throttle in lacking.throttles}


@pytest.mark.parametrize(
    ("version", "counter", "reason"),
    [
        ((1, 7), "gfx_below_host_limit_acc", "gfx_clk_below_host_limit"),
        ((1, 8), "gfx_below_host_limit_ppt_acc", "gfx_clk_below_host_limit_power"),
        ((1, 8), "gfx_below_host_limit_thm_acc", "gfx_clk_below_host_limit_thermal"),
        ((1, 8), "gfx_below_host_limit_total_acc", "total_gfx_clk_below_host_limit"),
        ((1, 8), "gfx_low_utilization_acc", "low_utilization"),
    ],
)
def test_one_die_below_its_clock_limit_is_enough(
    tmp_path: Path, version: Version, counter: str, reason: str
) -> None:
    gpu = Gpu(tmp_path)
    found = []
    for cycles, count in ((1000, 5), (2000, 6), (3000, 6)):
        parts: Sequence[dict[str, Any]] = [{counter: [1, 1]}, {counter: [1, count]}]
        device = gpu.read(table(version, parts=parts, **CYCLES, accumulation_counter=cycles))
        found.append(active(device))
    assert found == [[], [reason], []]


@pytest.mark.parametrize("version", [(1, 6), (1, 7), (1, 8)])
def test_dies_and_engines_of_all_partitions_are_read(tmp_path: Path, version: Version) -> None:
    parts = [
        {"gfx_busy_inst": [10, 30], "vcn_busy": [20], "jpeg_busy": [0, 8]},
        {"gfx_busy_inst": [50, 70], "vcn_busy": [60]},
    ]
    device = Gpu(tmp_path).read(table(version, parts=parts))
    assert [(core.index, core.utilization_ratio) for core in device.cores] == [
        (0, 0.1),
        (1, 0.3),
        (2, 0.5),
        (3, 0.7),
    ]
    assert (device.decoder_utilization_ratio, device.jpeg_utilization_ratio) == (0.4, 0.04)


@pytest.mark.parametrize("version", [(1, 4), (1, 5)])
def test_engines_are_read_from_tables_without_partitions(tmp_path: Path, version: Version) -> None:
    jpeg = {"jpeg_activity": [2, 4]} if version == (1, 5) else {}
    device = Gpu(tmp_path).read(table(version, vcn_activity=[10, 30], **jpeg))
    assert (device.decoder_utilization_ratio, device.jpeg_utilization_ratio) == (0.2, 0.03 if jpeg else None)


def test_a_chip_with_hbm_reports_no_activity_of_its_video_engines(tmp_path: Path) -> None:
    """MI200 writes 0."""
    content = table((1, 3), average_mm_activity=0, temperature_hbm=[60])
    assert Gpu(tmp_path).read(content).decoder_utilization_ratio is None


def test_partitions_have_the_mean_utilization_of_their_dies(tmp_path: Path) -> None:
    gpu = Gpu(tmp_path, {**HEALTHY, "current_compute_partition": "DPX"})
    for number in range(2):
        write(
            tmp_path / "sys/class/kfd/kfd/topology/nodes",
            {
                f"{number}/gpu_id": f"{number + 7}",
                f"{number}/properties": f"location_id {0x900 | number << 28}\nsimd_count 8\nsimd_per_cu 4",
            },
        )
    device = gpu.read(table((1, 7), parts=[{"gfx_busy_inst": [10, 30]}, {"gfx_busy_inst": [50, 70]}]))
    assert [part.utilization_ratio for part in device.partitions] == [0.2, 0.6]


XGMI = {
    "xgmi_link_width": 16,
    "xgmi_link_speed": 32,
    "xgmi_read_data_acc": [0, 1000, 0, 3],
    "xgmi_write_data_acc": [0, 2000, 0, 4],
}
EMPTY_LINKS = {"xgmi_read_data_acc": [0] * 8, "xgmi_write_data_acc": [0] * 8}
LINKED = {**HEALTHY, "xgmi_hive_info/xgmi_hive_id": "8125432109867"}


@pytest.mark.parametrize("version", [(1, 4), (1, 5), (1, 6), (1, 7), (1, 8)])
def test_links_are_read_by_port(tmp_path: Path, version: Version) -> None:
    states = {"xgmi_link_status": [0, 1, 1, 0]} if version >= (1, 7) else {}
    device = Gpu(tmp_path, LINKED).read(table(version, **XGMI, **states))
    up, down = (True, False) if states else (None, None)
    rate = 64e9  # 16 lanes of 32 Gb/s
    expected = [Link("xgmi", 1, up, None, rate, 2000 * 1024, 1000 * 1024)]
    if states:
        expected.append(Link("xgmi", 2, up, None, rate, 0, 0))
    expected.append(Link("xgmi", 3, down, None, rate, 4 * 1024, 3 * 1024))
    assert list(device.links) == expected


PORTS = (0, 1, 2, 4)  # of a GPU with four peers, one at each


def in_hive(root: Path, ports: Sequence[int] = PORTS, own: str = "0000:09:00.0") -> Gpu:
    """A GPU that is the third of five in its hive; peers are in the order of ports."""
    peers = (1, 2, 4, 5)
    lines = (f"03:{port:02x} ->  {peer:02x}:00\n" for port, peer in zip(ports, peers, strict=True))
    gpu = Gpu(root, {**LINKED, "xgmi_port_num": "".join(lines)}, pci="0000:09:00.0")
    for number in (*peers, 3):
        address = own if number == 3 else f"0000:{number}0:00.0"
        (gpu.folder / f"xgmi_hive_info/node{number}").symlink_to(f"../../../pci0000:00/{address}")
    return gpu


def remotes(device: Device) -> dict[int, str | None]:
    return {link.index: link.remote for link in device.links}


@pytest.mark.parametrize("indices", [(0, 1, 2, 4), (0, 2, 3, 6)], ids=["by port", "by position in the chip"])
def test_links_lead_to_the_gpus_at_their_ports(tmp_path: Path, indices: Sequence[int]) -> None:
    """Older drivers list the links of MI300 in the order of the chip."""
    states = [int(index in indices) for index in range(8)]
    device = in_hive(tmp_path).read(table((1, 7), xgmi_link_status=states, **EMPTY_LINKS))
    by_port = {0: "0000:10:00.0", 1: "0000:20:00.0", 2: "0000:40:00.0", 4: "0000:50:00.0"}
    assert remotes(device) == {index: by_port[port] for index, port in zip(indices, PORTS, strict=True)}


@pytest.mark.parametrize(
    ("ports", "indices", "own"),
    [
        ((0, 1, 2, 3), (0, 1, 2, 3), "0000:09:00.0"),  # both orders are possible
        (PORTS, (0, 7), "0000:09:00.0"),  # neither is
        (PORTS, PORTS, "0000:0a:00.0"),  # the hive's number of this GPU is that of another
    ],
)
def test_a_link_whose_other_end_is_not_certain_has_none(
    tmp_path: Path, ports: Sequence[int], indices: Sequence[int], own: str
) -> None:
    states = [int(index in indices) for index in range(8)]
    device = in_hive(tmp_path, ports, own).read(table((1, 7), xgmi_link_status=states, **EMPTY_LINKS))
    assert remotes(device) == dict.fromkeys(indices)


def test_the_other_end_of_a_link_stays_while_other_links_are_down(tmp_path: Path) -> None:
    gpu = in_hive(tmp_path)
    before = remotes(gpu.read(table((1, 7), xgmi_link_status=[1, 1, 1, 0, 1], **EMPTY_LINKS)))
    after = remotes(gpu.read(table((1, 7), xgmi_link_status=[1, 0, 0, 0, 0], **EMPTY_LINKS)))
    assert after == {0: before[0]} == {0: "0000:10:00.0"}


@pytest.mark.parametrize("hive", [None, "0"])
def test_a_gpu_without_a_hive_has_no_links(tmp_path: Path, hive: str | None) -> None:
    files = HEALTHY if hive is None else {**HEALTHY, "xgmi_hive_info/xgmi_hive_id": hive}
    assert Gpu(tmp_path, files).read(table((1, 7), **XGMI)).links == ()


def test_pcie_errors_are_counted(tmp_path: Path) -> None:
    counts = {
        "pcie_l0_to_recov_count_acc": 4,
        "pcie_replay_rover_count_acc": 0,
        "pcie_nak_sent_count_acc": 1,
        "pcie_nak_rcvd_count_acc": 2,
    }
    device = Gpu(tmp_path).read(table((1, 7), **counts, pcie_replay_count_acc=9))
    assert set(device.errors) == {
        ErrorCount("pcie", "recovery", 4),
        ErrorCount("pcie", "replay_rollover", 0),
        ErrorCount("pcie", "nak_sent", 1),
        ErrorCount("pcie", "nak_received", 2),
    }
    assert device.pcie is not None
    assert device.pcie.replays_total == 9


def test_the_drivers_count_of_pcie_replays_is_preferred(tmp_path: Path) -> None:
    device = Gpu(tmp_path, {**HEALTHY, "pcie_replay_count": "5"}).read(table((1, 7), pcie_replay_count_acc=9))
    assert device.pcie is not None
    assert device.pcie.replays_total == 5


def test_voltages_are_read(tmp_path: Path) -> None:
    device = Gpu(tmp_path).read(table((1, 3), voltage_soc=900, voltage_gfx=818, voltage_mem=1250))
    assert {rail.name: rail.volts for rail in device.rails} == {"gfx": 0.818, "soc": 0.9, "mem": 1.25}


def test_a_gpu_is_read_if_its_folder_in_class_drm_is_a_link(tmp_path: Path) -> None:
    lay_out_gpu(tmp_path, LINKED)
    pci, drm = tmp_path / "sys/devices/pci0000:00/0000:09:00.0", tmp_path / "sys/class/drm/card0"
    pci.parent.mkdir(parents=True)
    (drm / "device").rename(pci)
    (pci / "drm/card0").mkdir(parents=True)
    (pci / "drm/card0/device").symlink_to("../..")
    drm.rmdir()
    drm.symlink_to("../../devices/pci0000:00/0000:09:00.0/drm/card0")
    (pci / "gpu_metrics").write_bytes(COMPLETE)
    device = only_device(tmp_path)
    assert (device.pci_address, device.device_name, device.power_watts) == ("0000:09:00.0", None, 612.0)
