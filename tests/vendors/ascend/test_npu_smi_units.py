"""Every field of npu-smi in base units."""

import math
from typing import Any

import pytest

from accelscope.parsing import sources

MIB = 2**20


def info(upper: str = "1.0 2 0 / 0", lower: str = "3 0 / 0 4 / 5") -> str:
    return (
        "| npu-smi 1.2 Version: 3.4 |\n"
        "| NPU Name | Health | Power(W)  Temp(C)  Hugepages-Usage(page) |\n"
        "| Chip Phy-ID | Bus-Id | AICore(%)  Memory-Usage(MB)  HBM-Usage(MB) |\n"
        f"| 6 910X | OK | {upper} |\n| 1 13 | 0001:0C:00.0 | {lower} |\n"
        "| NPU Chip | Process id | Process name | Process memory(MB) |\n"
        "| 6 1 | 99 | x | 7 |\n"
    )


def lines(line: str) -> str:
    return f"NPU ID : 6\nChip Count : 1\n\n{line}\nChip ID : 1\n"


def common(line: str) -> str:
    return f"NPU ID : 6\nChip Count : 1\n\nChip ID : 1\n{line}\n"


# Source, text, field, value.
UNITS: list[tuple[str, str, str, object]] = [
    ("info", info(), "board_id", 6),
    ("info", info(), "chip_id", 1),
    ("info", info(), "physical_id", 13),
    ("info", info(), "model", "910X"),
    ("info", info(), "driver_version", "3.4"),
    ("info", info(), "pci_address", "0001:0c:00.0"),
    ("info", info("162.8 37 0 / 0"), "power_watts", 162.8),  # W
    ("info", info("1.0 37 0 / 0"), "temperature_celsius", 37.0),  # °C
    ("info", info("1.0 -4 0 / 0"), "temperature_celsius", -4.0),
    ("info", info(lower="29 0 / 0 4 / 5"), "utilization_ratio", 0.29),  # %
    ("info", info(lower="100 0 / 0 4 / 5"), "utilization_ratio", 1.0),
    ("info", info(lower="3 0 / 0 59718/ 65536"), "memory_used_bytes", 59718 * MIB),  # MB = MiB
    ("info", info(lower="3 0 / 0 59718/ 65536"), "memory_total_bytes", 65536 * MIB),
    ("info", info(), "processes.memory_bytes", 7 * MIB),
    ("usages", lines("Aicore Usage Rate(%) : 7"), "utilization_ratio", 0.07),
    ("usages", lines("NPU Utilization(%) : 7"), "utilization_ratio", 0.07),
    ("usages", lines("Aivector Usage Rate(%) : 33"), "vector_utilization_ratio", 0.33),
    ("usages", lines("Vectorcore Usage Rate(%) : 33"), "vector_utilization_ratio", 0.33),
    ("usages", lines("Ctrlcpu Usage Rate(%) : 9"), "control_cpu_utilization_ratio", 0.09),
    (
        "usages",
        lines("Aicore Usage Rate(%) : 7\nNPU Utilization(%) : 8"),
        "overall_utilization_ratio",
        0.08,
    ),
    ("usages", lines("HBM Usage Rate(%) : 25"), "memory_used_ratio", 0.25),
    ("usages", lines("DDR Usage Rate(%) : 3"), "memory_used_ratio", 0.03),
    ("usages", lines("DDR Usage Rate(%) : 3\nHBM Usage Rate(%) : 0"), "memory_used_ratio", 0.0),
    ("usages", lines("Aicube Usage Rate(%) : 99"), "tensor_active_ratio", 0.99),
    ("usages", lines("DVPP VDEC Usage Rate(%) : 1"), "decoder_utilization_ratio", 0.01),
    ("usages", lines("DVPP VENC Usage Rate(%) : 2"), "encoder_utilization_ratio", 0.02),
    ("usages", lines("DVPP JPEGD Usage Rate(%) : 3"), "jpeg_utilization_ratio", 0.03),
    ("usages", lines("HBM Capacity(MB) : 65536"), "memory_total_bytes", 65536 * MIB),
    (
        "usages",
        lines("HBM Capacity(MB) : 65536\nHBM Usage Rate(%) : 25"),
        "memory_used_bytes",
        16384 * MIB,
    ),
    (
        "usages",
        lines("HBM Capacity(MB) : 8\nHBM Bandwidth Usage Rate(%) : 51"),
        "memory_utilization_ratio",
        0.51,
    ),
    (
        "usages",
        lines("DDR Capacity(MB) : 8\nDDR Bandwidth Usage Rate(%) : 51"),
        "memory_utilization_ratio",
        0.51,
    ),
    ("common", common("Aicore Usage Rate(%) : 7"), "utilization_ratio", 0.07),
    ("common", common("Memory Usage Rate(%) : 6\nHBM Usage Rate(%) : 0"), "memory_used_ratio", 0.0),
    ("common", common("Memory Usage Rate(%) : 6"), "memory_used_ratio", 0.06),
    ("common", common("Temperature(C) : 46"), "temperature_celsius", 46.0),
    ("common", common("NPU Real-time Power(W) : 69.1"), "power_watts", 69.1),
    ("common", common("Aicore curFreq(MHZ) : 960"), "clocks.hertz", 960e6),  # MHz
    ("common", common("Aicore Freq(MHZ) : 1080"), "clocks.max_hertz", 1080e6),
    ("board", lines("VDie ID : 0A0B0C0D 00000001"), "uuid", "0A0B0C0D-00000001"),
    ("board", lines("PCIe Bus Info : 0000:C1:00.0"), "pci_address", "0000:c1:00.0"),
    ("board", lines("Serial Number : AB12"), "serial", "AB12"),
    ("board", lines("Software Version : 25.1"), "driver_version", "25.1"),
    ("board", lines("Firmware Version : 7.1"), "firmware_version", "7.1"),
    ("board", lines("Chip Name : 910X"), "model", "910X"),
    ("board", lines("Product Name : IT21\nChip Name : 910X"), "model", "910X"),
    ("board", lines("Product Name : IT21"), "model", "IT21"),
    ("board", lines("PCI Device ID : 0xD801"), "pci_device_id", "0xd801"),
    ("board", lines("Serial Number : AB12\nChip Count : 2"), "chip_count", 2),
    ("health", lines("Health Status : OK\nError Code : 80E01801"), "errors.code", "80E01801"),
    ("ecc", lines("HBM Double Bit Error Count : 12"), "ecc.count", 12),
    ("ecc", lines("HBM Double Bit Isolated Pages Count : 3"), "retired_pages.count", 3),
    ("map", "NPU ID  Chip ID  Chip Logic ID  Chip Phy-ID  Chip Name\n6 1 12 13 910X\n", "index", 12),
    ("map", "NPU ID  Chip ID  Chip Logic ID  Chip Phy-ID  Chip Name\n6 1 12 13 910X\n", "physical_id", 13),
    (
        "proc-mem",
        lines("Process id:99 Process name:x   Process memory(MB):48208"),
        "processes.memory_bytes",
        48208 * MIB,
    ),
]


@pytest.mark.parametrize(("source", "text", "field", "value"), UNITS)
def test_a_field_is_in_base_units(source: str, text: str, field: str, value: object) -> None:
    parsed = sources()[f"npu-smi-{source}"].parse(text, None)
    assert parsed.rejected == ()
    first, _, rest = field.partition(".")
    if first == "processes":
        found: Any = getattr(parsed.processes[0], rest)
    else:
        [device] = parsed.devices
        found = getattr(device, first)
        if rest:
            found = getattr(found[0], rest)
    assert found == value
    assert type(found) is type(value)
    if isinstance(found, float):
        assert math.isclose(found, float(value), rel_tol=0)  # type: ignore[arg-type]
