"""Every field of AMD's tools and files in base units, with the raw value on the left."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.vendors.amd.amd_tree import lay_out_gpu

from accelscope.model import Device
from accelscope.vendors.amd import parse_amd_smi, parse_rocm_smi, quantities
from accelscope.vendors.amd.processes import parse_fdinfo
from accelscope.vendors.amd.reader import AmdReader
from accelscope.vendors.common.contract import Paths, ReaderOptions

MIB = 2**20


def leaf(value: object, unit: str) -> dict[str, object]:
    return {"value": value, "unit": unit}


# Path in the document of amd-smi metric, what stands there, place in the model, value.
METRIC: list[tuple[str, object, Callable[[Device], Any], object]] = [
    ("usage.gfx_activity", leaf(42, "%"), lambda d: d.utilization_ratio, 0.42),
    ("usage.umc_activity", leaf(7.5, "%"), lambda d: d.memory_utilization_ratio, 0.075),
    ("usage.vcn_activity", [leaf(10, "%"), leaf(30, "%"), "N/A"], lambda d: d.decoder_utilization_ratio, 0.2),
    ("usage.jpeg_activity", ["N/A", leaf(50, "%")], lambda d: d.jpeg_utilization_ratio, 0.5),
    ("power.socket_power", leaf(158, "W"), lambda d: d.power_watts, 158.0),
    ("power.current_socket_power", leaf(158, "W"), lambda d: d.power_watts, 158.0),
    ("power.average_socket_power", "61 W", lambda d: d.power_watts, 61.0),
    ("power.gfx_voltage", leaf(933, "mV"), lambda d: d.rails[0].volts, 0.933),
    ("power.throttle_status", "THROTTLED", lambda d: d.throttles[0].active, True),
    ("clock.gfx_0", {"clk": leaf(2106, "MHz")}, lambda d: d.clocks[0].hertz, 2.106e9),
    ("clock.mem_0", {"max_clk": leaf(1300, "MHz")}, lambda d: d.clocks[0].max_hertz, 1.3e9),
    ("temperature.edge", leaf(54, "C"), lambda d: d.temperature_celsius, 54.0),
    ("temperature.mem", leaf(70, "°C"), lambda d: d.sensors[0].celsius, 70.0),
    ("pcie.speed", leaf(2.5, "GT/s"), lambda d: d.pcie and d.pcie.generation, 1),
    ("pcie.speed", leaf(32, "GT/s"), lambda d: d.pcie and d.pcie.generation, 5),
    ("pcie.width", 8, lambda d: d.pcie and d.pcie.width, 8),
    ("pcie.replay_count", "3", lambda d: d.pcie and d.pcie.replays_total, 3),
    (
        "pcie.current_bandwidth_sent",
        leaf(80, "Mb/s"),
        lambda d: d.pcie and d.pcie.transmit_bytes_per_second,
        1e7,
    ),
    ("pcie.nak_sent_count", 5, lambda d: (d.errors[0].kind, d.errors[0].code, d.errors[0].count), 0),
    ("ecc.total_uncorrectable_count", 2, lambda d: d.ecc[0].count, 2),
    ("ecc_blocks.UMC", {"correctable_count": 9}, lambda d: (d.ecc[0].block, d.ecc[0].count), ("umc", 9)),
    ("fan.usage", leaf(49.8, "%"), lambda d: d.fans[0].speed_ratio, 0.498),
    ("fan.rpm", 2570, lambda d: d.fans[0].speed_rpm, 2570.0),
    ("energy.total_energy_consumption", leaf(1234.5, "J"), lambda d: d.energy_joules, 1234.5),
    ("mem_usage.total_vram", leaf(196592, "MB"), lambda d: d.memory_total_bytes, 206141652992),
    ("mem_usage.used_vram", leaf(12, "GB"), lambda d: d.memory_used_bytes, 12 * 2**30),
    ("mem_usage.free_vram", leaf(5, "MiB"), lambda d: d.memory_free_bytes, 5 * MIB),
    ("pcie.bandwidth", leaf(100, "Mb/s"), lambda d: d.pcie and d.pcie.bytes_per_second, 12.5e6),
    ("throttle.ppt_violation_status", "ACTIVE", lambda d: (d.throttles[0].reason, d.throttles[0].active), 0),
]
SPECIAL = {"pcie.nak_sent_count": ("pcie", "nak_sent", 5), "throttle.ppt_violation_status": ("ppt", True)}

STATIC: list[tuple[str, object, Callable[[Device], Any], object]] = [
    ("asic.asic_serial", "0x0F1F0A2B3C4D5E6F", lambda d: d.uuid, "0xf1f0a2b3c4d5e6f"),
    ("bus.bdf", "0000:C3:00.0", lambda d: d.pci_address, "0000:c3:00.0"),
    ("bus.max_pcie_speed", leaf(16, "GT/s"), lambda d: d.pcie and d.pcie.max_generation, 4),
    ("bus.pcie_interface_version", "Gen 5", lambda d: d.pcie and d.pcie.max_generation, 5),
    ("bus.max_pcie_width", 16, lambda d: d.pcie and d.pcie.max_width, 16),
    ("limit.socket_power", leaf(300, "W"), lambda d: d.power_limit_watts, 300.0),
    ("limit.ppt0", {"socket_power_limit": leaf(1400, "W")}, lambda d: d.power_limit_watts, 1400.0),
    ("limit.max_power", leaf(310, "W"), lambda d: d.power_limit_max_watts, 310.0),
    ("limit.min_power", leaf(0, "W"), lambda d: d.power_limit_min_watts, 0.0),
    ("limit.slowdown_edge_temperature", leaf(99, "C"), lambda d: d.temperature_slowdown_celsius, 99.0),
    ("limit.shutdown_hotspot_temperature", leaf(105, "C"), lambda d: d.temperature_shutdown_celsius, 105.0),
    ("vram.size", leaf(65520, "MB"), lambda d: d.memory_total_bytes, 65520 * MIB),
    ("vram.vram_size", leaf(16, "GB"), lambda d: d.memory_total_bytes, 16 * 2**30),
    ("ras.ecc_block_state", {"UMC": "ENABLED"}, lambda d: d.ecc_enabled, True),
    ("numa.node", 1, lambda d: d.numa_node, 1),
]

# Key of rocm-smi, what stands there, place in the model, value.
ROCM: list[tuple[str, str, Callable[[Device], Any], object]] = [
    ("GPU use (%)", "20.3", lambda d: d.utilization_ratio, 0.203),
    ("DCU use (%)", "75", lambda d: d.utilization_ratio, 0.75),
    ("HCU use (%)", "75", lambda d: d.utilization_ratio, 0.75),
    ("GPU memory use (%)", "31", lambda d: d.memory_utilization_ratio, 0.31),
    ("GPU Memory Read/Write Activity (%)", "31", lambda d: d.memory_utilization_ratio, 0.31),
    ("VRAM Total Memory (B)", "17163091968", lambda d: d.memory_total_bytes, 17163091968),
    ("vram Total Memory (MiB)", "65520", lambda d: d.memory_total_bytes, 65520 * MIB),
    ("vram Total Used Memory (MiB)", "2", lambda d: d.memory_used_bytes, 2 * MIB),
    ("Average Graphics Package Power (W)", "92.165", lambda d: d.power_watts, 92.165),
    ("Current Socket Graphics Package Power (W)", "266.0", lambda d: d.power_watts, 266.0),
    ("Max Graphics Package Power (W)", "560.0", lambda d: d.power_limit_watts, 560.0),
    ("Accumulated Energy (uJ)", "2500000.0", lambda d: d.energy_joules, 2.5),
    ("Temperature (Sensor edge) (C)", "39.0", lambda d: d.temperature_celsius, 39.0),
    ("Temperature (Sensor mem) (C)", "61.0", lambda d: d.sensors[0], ("memory", 61.0)),
    ("Fan speed (%)", "13", lambda d: d.fans[0].speed_ratio, 0.13),
    ("Fan RPM", "682", lambda d: d.fans[0].speed_rpm, 682.0),
    ("Voltage (mV)", "906", lambda d: d.rails[0].volts, 0.906),
    ("sclk clock speed:", "(1626Mhz)", lambda d: d.clocks[0].hertz, 1.626e9),
    ("Valid mclk range", "400Mhz - 1600Mhz", lambda d: d.clocks[0].max_hertz, 1.6e9),
    ("pcie clock level", "3 (2.5GT/s x8)", lambda d: d.pcie and (d.pcie.generation, d.pcie.width), (1, 8)),
    ("Unique ID", "0x02150e7d042a1124", lambda d: d.uuid, "0x2150e7d042a1124"),
]

# File of a device, its content, how to get the value from the device, and the value.
FILES: list[tuple[str, str, Callable[[Device], Any], object]] = [
    ("gpu_busy_percent", "4", lambda d: d.utilization_ratio, 0.04),
    ("mem_busy_percent", "100", lambda d: d.memory_utilization_ratio, 1.0),
    ("mem_info_vram_total", "8573157376", lambda d: d.memory_total_bytes, 8573157376),
    ("mem_info_vram_used", "1490378752", lambda d: d.memory_used_bytes, 1490378752),
    ("current_link_speed", "16.0 GT/s PCIe", lambda d: d.pcie and d.pcie.generation, 4),
    ("max_link_width", "8", lambda d: d.pcie and d.pcie.max_width, 8),
    ("pp_dpm_sclk", "0: 852Mhz\n1: 1138Mhz *\n2: 1630Mhz", lambda d: d.clocks[0], (1.138e9, 1.63e9)),
    ("pp_dpm_mclk", "S: 38Mhz *\n0: 900Mhz\n1: 1300Mhz", lambda d: d.clocks[0], (38e6, 1.3e9)),
    ("hwmon/hwmon4/temp1_input", "45500", lambda d: d.temperature_celsius, 45.5),
    ("hwmon/hwmon4/temp1_input", "-3000", lambda d: d.temperature_celsius, -3.0),
    ("hwmon/hwmon4/power1_average", "158250000", lambda d: d.power_watts, 158.25),
    ("hwmon/hwmon4/power1_input", "9000000", lambda d: d.power_watts, 9.0),
    ("hwmon/hwmon4/power1_cap", "300000000", lambda d: d.power_limit_watts, 300.0),
    ("hwmon/hwmon4/power1_cap_default", "280000000", lambda d: d.power_limit_default_watts, 280.0),
    ("hwmon/hwmon4/power1_cap_max", "330000000", lambda d: d.power_limit_max_watts, 330.0),
    ("hwmon/hwmon4/power1_cap_min", "0", lambda d: d.power_limit_min_watts, 0.0),
    ("hwmon/hwmon4/in0_input", "918", lambda d: d.rails[0].volts, 0.918),
    ("hwmon/hwmon4/freq1_input", "2787000000", lambda d: d.clocks[0].hertz, 2.787e9),
    ("hwmon/hwmon4/fan1_input", "1200", lambda d: d.fans[0].speed_rpm, 1200.0),
    ("hwmon/hwmon4/pwm1", "51", lambda d: d.fans[0].speed_ratio, 0.2),
]
LABELS = {"hwmon/hwmon4/in0_label": "vddgfx", "hwmon/hwmon4/freq1_label": "sclk"}


def nested(path: str, value: object) -> dict[str, object]:
    for name in reversed(path.split(".")):
        value = {name: value}
    assert isinstance(value, dict)
    return value


def same(found: Any, value: object) -> bool:
    if isinstance(value, float):
        return isinstance(found, float) and found == pytest.approx(value, rel=1e-12)
    if isinstance(value, tuple) and hasattr(found, "hertz"):
        return (found.hertz, found.max_hertz) == value
    if isinstance(value, tuple) and hasattr(found, "celsius"):
        return (found.name, found.celsius) == value
    return bool(found == value)


def label(item: object) -> str | None:
    """Of a case; a function has none that is the same in every process."""
    return None if callable(item) else str(item)[:40]


@pytest.mark.parametrize(("path", "raw", "take", "value"), METRIC, ids=label)
def test_a_field_of_amd_smi_metric_is_in_base_units(
    path: str, raw: object, take: Callable[[Device], Any], value: object
) -> None:
    [device] = parse_amd_smi.parse_metric(json.dumps([{"gpu": 0, **nested(path, raw)}])).devices
    assert same(take(device), SPECIAL.get(path, value))


@pytest.mark.parametrize(("path", "raw", "take", "value"), STATIC, ids=label)
def test_a_field_of_amd_smi_static_is_in_base_units(
    path: str, raw: object, take: Callable[[Device], Any], value: object
) -> None:
    [device] = parse_amd_smi.parse_static(json.dumps({"gpu_data": [{"gpu": 0, **nested(path, raw)}]})).devices
    assert same(take(device), value)


@pytest.mark.parametrize(("key", "raw", "take", "value"), ROCM, ids=label)
def test_a_field_of_rocm_smi_is_in_base_units(
    key: str, raw: str, take: Callable[[Device], Any], value: object
) -> None:
    [device] = parse_rocm_smi.parse_rocm_json(json.dumps({"card0": {key: raw}})).devices
    assert same(take(device), value)


@pytest.mark.parametrize(("name", "raw", "take", "value"), FILES, ids=label)
def test_a_file_of_the_driver_is_in_base_units(
    tmp_path: Path, name: str, raw: str, take: Callable[[Device], Any], value: object
) -> None:
    # Something that the device answered, lest it be taken for one that is gone.
    alive = {} if name == "gpu_busy_percent" else {"gpu_busy_percent": "0"}
    lay_out_gpu(tmp_path, {**alive, **LABELS, name: raw})
    reader = AmdReader(
        ReaderOptions(
            Paths(
                proc=tmp_path / "proc",
                sys=tmp_path / "sys",
                dev=tmp_path / "dev",
            ),
            dict.fromkeys(("amd_smi_path", "rocm_smi_path"), str(tmp_path / "no-tool")),
        )
    )
    [key] = reader.survey().keys
    assert same(take(reader.read(key).device), value)


@pytest.mark.parametrize(
    ("line", "bytes_held"),
    [
        ("drm-memory-vram:\t2048 KiB", 2 * MIB),
        ("drm-total-vram:\t3 MiB", 3 * MIB),
        ("drm-resident-vram: 1 GiB", 2**30),
        ("drm-memory-vram: 512", 512),
        ("drm-memory-vram: many KiB", None),
    ],
)
def test_the_memory_of_a_drm_client_is_in_bytes(line: str, bytes_held: int | None) -> None:
    client = parse_fdinfo(f"drm-driver:\tamdgpu\ndrm-client-id:\t7\n{line}\ndrm-engine-gfx:\t1500 ns\n")
    assert client is not None
    assert client.memory_bytes == bytes_held
    assert client.graphics_ns == 1500


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (quantities.watts, "65535 W"),
        (quantities.watts, "4294967295"),
        (quantities.watts, "-4 W"),
        (quantities.watts, "12 C"),
        (quantities.celsius, "65535 C"),
        (quantities.ratio, "250 %"),
        (quantities.ratio, "65535"),
        (quantities.volts, "65535 mV"),
        (quantities.hertz, "4294967295"),
        (quantities.memory, "18446744073709551615 B"),
        (quantities.count, "1.5"),
        (quantities.count, "1e3"),
        (quantities.count, "9" * 300),
        (quantities.joules, "0.0 J"),
        (quantities.microjoules, "N/A"),
        (quantities.name, "0X1002"),
        (quantities.generation, "3.0 GT/s"),
        (quantities.lanes, "0"),
        (quantities.unique_id, "0x0"),
        (quantities.unique_id, "N/A"),
        (quantities.numa_node, "4294967295"),
        (quantities.name, "0x1002"),
        (quantities.words, "caf\ufffd"),
        (quantities.partition, "N/A"),
        (quantities.flag, "perhaps"),
    ],
)
def test_an_invalid_value_is_none(read: quantities.Read, text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("enabled", "ACTIVE", "THROTTLED", "True", "yes", "on"), True),
        (("disabled", "NOT_ACTIVE", "inactive", "UNTHROTTLED", "False", "no", "off"), False),
    ],
)
def test_words_of_a_flag_are_true_or_false(words: tuple[str, ...], value: bool) -> None:
    assert {word: quantities.flag(word) for word in words} == dict.fromkeys(words, value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("N/A", "not_supported"),
        ("N/A Mb/s", "not_supported"),
        ("n/a", "not_supported"),
        ("N/A (Secondary die)", "not_supported"),
        ("UNKNOWN", "no_sample"),
        ("None", "no_sample"),
        ("", "no_sample"),
        ("0", None),
        ("158 W", None),
        ("N" * 500, None),
    ],
)
def test_absence_markers_have_reasons(text: str, reason: str | None) -> None:
    assert quantities.absence(text) == reason


@pytest.mark.parametrize("text", ["65713.0 J", "65713.0", "65536.0 J"])
def test_an_energy_counter_that_is_not_filled_is_no_energy(text: str) -> None:
    """amd-smi 6.1.2 multiplies the 32 bits of ones in the table of a Radeon card by 15.3 microjoules."""
    assert quantities.joules(text) is None


def test_an_energy_near_an_empty_counter_is_kept() -> None:
    assert quantities.joules("65714 J") == 65714.0
