"""From what driver and tools show to the model's base units: every field, raw and converted."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.vendors.furiosa.furiosa_tree import hwmon, options, rngd, warboy, write

from accelscope.model import AbsenceReason, Device
from accelscope.vendors.furiosa import draft, sysfs
from accelscope.vendors.furiosa.reader import FuriosaReader
from accelscope.vendors.furiosa.sysfs import Counters, warboy_counters, warboy_utilization

MIB, GIB = 2**20, 2**30
AT = "0000:01:00.0"


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (draft.celsius, "49°C", 49.0),
        (draft.celsius, "30.18°C", 30.18),
        (draft.celsius, " 34 C", 34.0),
        (draft.celsius, "54", 54.0),
        (draft.celsius, "-3°C", -3.0),
        (draft.celsius, "54\ufffdC", 54.0),  # the sign did not survive an encoding
        (draft.celsius, "54 K", None),
        (draft.celsius, "65535°C", None),
        (draft.watts, "12.92 W", 12.92),
        (draft.watts, "151.00 W", 151.0),
        (draft.watts, "990 mW", 0.99),
        (draft.watts, "42", 42.0),
        (draft.watts, "-1 W", None),
        (draft.watts, "inf W", None),
        (draft.hertz, "2000 MHz", 2e9),
        (draft.hertz, "2000", 2e9),
        (draft.hertz, "1.7 GHz", 1.7e9),
        (draft.hertz, "2000000 kHz", 2e9),
        (draft.hertz, "4266 MT/s", None),
        (draft.memory, "47.50 GiB", 51_002_736_640),
        (draft.memory, "0.00 GiB", 0),
        (draft.memory, "512 MB", 512 * MIB),
        (draft.memory, "512 MiB", 512 * MIB),
        (draft.memory, "7 B", 7),
        (draft.memory, "12", None),  # of what?
        (draft.ratio, "99.47%", 0.9947),
        (draft.ratio, "0.00%", 0.0),
        (draft.ratio, "100", 1.0),
        (draft.ratio, "-1%", None),
        (draft.ratio, "4294967295%", None),
        (draft.count, "132529", 132529),
        (draft.count, "1.5", None),
        (draft.count, "-1", None),
        (draft.count, "٣", None),
        (draft.count, "9" * 5000, None),
        (draft.architecture, "FuriosaAI Warboy", "warboy"),
        (draft.architecture, "RNGD", "rngd"),
        (draft.architecture, "rngd-max", "rngd"),
        (draft.architecture, "renegade", "rngd"),
        (draft.architecture, "something", None),
        (sysfs.whole, "86400\n", 86400),
        (sysfs.whole, "-1\n", -1),
        (sysfs.whole, "1.5\n", None),
        (sysfs.flag, "1\n", True),
        (sysfs.flag, "0", False),
        (sysfs.flag, "2", None),
        (sysfs.core_flags, "1\n0\n0\n1\n", (True, False, False, True)),
        (sysfs.core_flags, "1\nx\n", None),
        (sysfs.core_flags, "", None),
        (sysfs.core_clocks, "2000000000\n1700000000\n", (2e9, 1.7e9)),  # Hz
        (sysfs.core_clocks, "0\n2000000000\n", (0.0, 2e9)),
        (sysfs.core_clocks, "2000000000\n\nfast\n", None),
        (sysfs.core_clocks, "-1\n", None),
        (sysfs.core_clocks, "999999999999999\n", None),
        (sysfs.is_alive_state, "0\n", True),
        (sysfs.is_alive_state, "1\n", False),
        (sysfs.core_memory, "dram_capacity: 0x10\ndram_usage: 0x8\n", None),
        (
            sysfs.error_counts,
            "AXI Post Error: 3\nDevice Error: 0\n",
            {"axi_post_error": 3, "device_error": 0},
        ),
        (sysfs.error_counts, "AXI Post Error: -1\n", None),
        (sysfs.error_counts, "no counters", None),
    ],
)
def test_a_text_as_a_value(read: Callable[[str], object], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("N/A", AbsenceReason.NOT_SUPPORTED),
        ("n/a ", AbsenceReason.NOT_SUPPORTED),
        ("-", AbsenceReason.NO_SAMPLE),
        ("", AbsenceReason.NO_SAMPLE),
        ("  ", AbsenceReason.NO_SAMPLE),
        ("Unknown", AbsenceReason.NOT_KNOWN),
        ("0", None),
        ("0.00%", None),
        ("rngd", None),
        ("N/A" * 100, None),
    ],
)
def test_a_marker_has_its_reason(text: str, reason: AbsenceReason | None) -> None:
    assert draft.absence(text) is reason


def rail(card: Device, name: str, unit: str) -> object:
    return next(getattr(rail, unit) for rail in card.rails if rail.name == name)


@pytest.mark.parametrize(
    ("file", "label", "raw", "shown", "value"),
    [
        ("temp1", "Peak", 47_500, lambda c: c.temperature_celsius, 47.5),  # m°C
        ("temp1", "AMBIENT", -2_000, lambda c: c.sensors[0].celsius, -2.0),
        ("power1", "PCI Total RMS PWR", 12_920_000, lambda c: c.power_watts, 12.92),  # µW
        ("power1", "RMS_TOTAL", 151_000_000, lambda c: c.power_watts, 151.0),
        ("power1", "NE PWR", 990_000, lambda c: rail(c, "NE PWR", "watts"), 0.99),
        ("in0", "NE Core Volt", 720, lambda c: rail(c, "NE Core Volt", "volts"), 0.72),  # mV
        ("in0", "NE Core 48V Volt", 47_912, lambda c: rail(c, "NE Core 48V Volt", "volts"), 47.912),
        ("curr1", "PCI 12V Curr", 1_375, lambda c: rail(c, "PCI 12V Curr", "amperes"), 1.375),  # mA
    ],
)
def test_a_sensor_in_base_units(
    tmp_path: Path, file: str, label: str, raw: int, shown: Callable[[Device], object], value: float
) -> None:
    write(tmp_path, warboy(0, AT) | hwmon(AT, {file: (label, raw)}))
    assert shown(card_of(tmp_path)) == value


@pytest.mark.parametrize(
    ("file", "raw", "shown", "value"),
    [
        ("heartbeat", "86400", lambda c: c.uptime_seconds, 86400.0),
        (
            "npu_clocks",
            "2000000000\n1700000000\n",
            lambda c: [k.clock_hertz for k in c.cores][:2],
            [2e9, 1.7e9],
        ),
        ("npu_clocks", "2000000000\n17\n", lambda c: [(k.domain, k.hertz) for k in c.clocks], [("npu", 2e9)]),
        ("device_state", "0", lambda c: c.health.state, "ok"),
        (
            "throttle_reason",
            "0x44",
            lambda c: {t.reason for t in c.throttles if t.active},
            {"app_power_cap", "hw_power_cap"},
        ),
        ("busname", "0000:0A:00.0", lambda c: c.pci_address, "0000:0a:00.0"),
        ("fw_version", "2026.3.0, 2d3f72a", lambda c: c.firmware_version, "2026.3.0, 2d3f72a"),
    ],
)
def test_an_attribute_in_base_units(
    tmp_path: Path, file: str, raw: str, shown: Callable[[Device], object], value: object
) -> None:
    files = rngd(0, AT)
    files[f"sys/class/rngd_mgmt/rngd!npu0mgmt/{file}"] = f"{raw}\n"
    files["sys/bus/pci/devices/0000:0a:00.0/numa_node"] = "0\n"
    write(tmp_path, files)
    assert shown(card_of(tmp_path)) == value


@pytest.mark.parametrize(
    ("speed", "width", "shown"),
    [
        ("2.5 GT/s PCIe", "1", (1, 1)),
        ("16.0 GT/s PCIe", "8", (4, 8)),
        ("32.0 GT/s PCIe", "16", (5, 16)),
        ("Unknown", "255", (None, None)),
    ],
)
def test_the_link_to_the_node(
    tmp_path: Path, speed: str, width: str, shown: tuple[int | None, int | None]
) -> None:
    folder = f"sys/bus/pci/devices/{AT}"
    write(
        tmp_path, rngd(0, AT) | {f"{folder}/current_link_speed": speed, f"{folder}/current_link_width": width}
    )
    pcie = card_of(tmp_path).pcie
    assert (pcie and pcie.generation, pcie and pcie.width) == shown


def card_of(root: Path) -> Device:
    reader = FuriosaReader(options(root))
    return reader.read(reader.survey().keys[0]).device


@pytest.mark.parametrize(
    ("before", "now", "ratio"),
    [
        ((0, 0), (1000, 250), 0.25),
        ((500, 100), (1500, 100), 0.0),
        ((500, (1 << 32) - 10), (1500, 490), 0.5),  # the tasks' counter wraps
        ((500, 100), (500, 100), None),  # stood still
        ((500, 100), (20, 10), None),  # was reset
        ((0, 0), (100, 200), 1.0),  # the vendor's library caps it
        ((0, 0), (1 << 32, 100), None),  # the tasks' counter may have wrapped once or not
    ],
)
def test_utilisation_between_two_readings(
    before: tuple[int, int], now: tuple[int, int], ratio: float | None
) -> None:
    assert warboy_utilization(Counters(*before), Counters(*now)) == ratio


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "TaskExecutionTime: 0x10\nCycleCount: 0x20\nCycleCountHigh: 0x1\n",
            Counters((1 << 32) + 0x20, 0x10),
        ),
        ("TaskExecutionTime: 0x10\nCycleCount: 0x20\n", Counters(0x20, 0x10)),  # an older driver has one half
        ("CycleCount: 0x20\n", None),
        ("", None),
    ],
)
def test_performance_counters(text: str, found: Counters | None) -> None:
    assert warboy_counters(text) == found
