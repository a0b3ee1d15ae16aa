"""Every capture of Furiosa's tools, with the values that somebody read off the file by eye.

Of ids that belong to other people's machines only the beginning is written down here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from accelscope.model import Device
from accelscope.parsing import sources
from accelscope.vendors.furiosa import sysfs
from accelscope.vendors.furiosa.parse_tools import driver_version

FOLDER = "furiosa"
GIB = 2**30
NO_SAMPLE, UNSUPPORTED = "no_sample", "not_supported"


@dataclass(frozen=True)
class Expected:
    source: str
    devices: Sequence[dict[str, object]] = ()
    processes: Sequence[dict[str, object]] = ()


def rngd(
    index: int, firmware: str, celsius: float, watts: float, address: str, **more: object
) -> dict[str, object]:
    return {
        "vendor": "furiosa",
        "index": index,
        "device_name": f"npu{index}",
        "model": "rngd",
        "architecture": "rngd",
        "firmware_version": firmware,
        "temperature_celsius": celsius,
        "power_watts": watts,
        "pci_address": address,
        **more,
    }


def warboy(
    index: int, name: str, celsius: float, watts: float, address: str, **more: object
) -> dict[str, object]:
    return {
        "vendor": "furiosa",
        "index": index,
        "device_name": f"npu{index}",
        "model": name,
        "architecture": "warboy",
        "temperature_celsius": celsius,
        "power_watts": watts,
        "pci_address": address,
        **more,
    }


def state(index: int, *, used: float | None, held: bool, **more: object) -> dict[str, object]:
    """Of a card whose eight cores are alike."""
    cores: dict[str, object] = {}
    for core in range(8):
        cores[f"cores.{core}.occupied"] = held
        if used is not None:
            cores[f"cores.{core}.utilization_ratio"] = used
    return {
        "vendor": "furiosa",
        "index": index,
        "device_name": f"npu{index}",
        "model": "rngd",
        "architecture": "rngd",
        **cores,
        **more,
    }


ALIVE = {"health.state": "ok", "health.vendor_word": "alive"}
NO_CLOCK = {"absent.clocks.npu": UNSUPPORTED}


def full(uuid: str, serial: str) -> dict[str, object]:
    return {"uuid": uuid, "serial": serial}


def number(major: int) -> dict[str, object]:
    return {"device_number": f"{major}:0"}


PERT_2024 = {"runtime_version": "2024.2.1+de20a9f"}
PERT_2025 = {"runtime_version": "2025.1.0+1694e18"}
FW_2024_1, FW_2024_2, FW_2025 = "0.0.15+af1daaa", "0.0.21+d6cada3", "2025.1.0+696efad"
FW_2026 = "1.7.0, 4dfed1852e7b"

EXPECTED: dict[str, Expected] = {
    "furiosa-smi-info_0.0.16_1rngd.txt": Expected(
        "furiosa-smi-info", [rngd(0, "0.0.16+b4a67ca", 28.88, 38.0, "0000:4e:00.0")]
    ),
    "furiosa-smi-info_2024.1_2rngd.txt": Expected(
        "furiosa-smi-info",
        [
            rngd(0, FW_2024_1, 30.18, 53.0, "0000:17:00.0"),
            rngd(1, FW_2024_1, 29.25, 53.0, "0000:2a:00.0"),
        ],
    ),
    "furiosa-smi-info_2024.2_4rngd.txt": Expected(
        "furiosa-smi-info",
        [
            rngd(0, FW_2024_2, 29.81, 35.0, "0000:30:00.0"),
            rngd(1, FW_2024_2, 32.97, 36.0, "0000:3f:00.0"),
            rngd(2, FW_2024_2, 32.04, 36.0, "0000:40:00.0"),
            rngd(3, FW_2024_2, 31.48, 36.0, "0000:41:00.0"),
        ],
    ),
    "furiosa-smi-info_2024.2.1_2rngd_pert.txt": Expected(
        "furiosa-smi-info",
        [
            rngd(0, "2024.2.0+7a11888", 30.62, 35.0, "0000:17:00.0") | PERT_2024,
            rngd(1, "2024.2.0+7a11888", 31.41, 37.0, "0000:2a:00.0") | PERT_2024,
        ],
    ),
    "furiosa-smi-info_2025.2_4rngd_pert.txt": Expected(
        "furiosa-smi-info",
        [
            rngd(0, FW_2025, 29.81, 35.0, "0000:30:00.0") | PERT_2025,
            rngd(1, FW_2025, 32.97, 36.0, "0000:3f:00.0") | PERT_2025,
            rngd(2, FW_2025, 32.04, 36.0, "0000:40:00.0") | PERT_2025,
            rngd(3, FW_2025, 31.48, 36.0, "0000:41:00.0") | PERT_2025,
        ],
    ),
    "furiosa-smi-info_2026.1_1rngd.txt": Expected(
        "furiosa-smi-info", [rngd(0, "1.11.0, cfd5306", 33.01, 40.32, "0000:27:00.0")]
    ),
    "furiosa-smi-info_2026_4rngd.txt": Expected(
        "furiosa-smi-info",
        [
            rngd(0, FW_2026, 40.98, 38.4, "0000:03:00.0"),
            rngd(1, FW_2026, 41.34, 37.44, "0000:04:00.0"),
            rngd(2, FW_2026, 40.43, 37.44, "0000:44:00.0"),
            rngd(3, FW_2026, 46.57, 39.36, "0000:45:00.0"),
        ],
    ),
    "furiosa-smi-info_2026.1.1_idle.json": Expected(
        "furiosa-smi-info",
        [
            rngd(0, "2026.3.0, 2d3f72a", 59.65, 42.0, "0000:03:00.0")
            | {"uuid": "<redacte", "serial": "RNGD-A", "clocks.npu": 2e9, "governor": "performance"}
            | number(510)
        ],
    ),
    "furiosa-smi-info-full_2024.1_2rngd.txt": Expected(
        "furiosa-smi-info",
        [
            rngd(0, FW_2024_1, 30.18, 53.0, "0000:17:00.0")
            | full("3E93AE7C", "RNGDXXXXXX")
            | NO_CLOCK
            | number(508),
            rngd(1, FW_2024_1, 29.44, 53.0, "0000:2a:00.0")
            | full("176DAD0F", "RNGDXXXXXY")
            | NO_CLOCK
            | number(506),
        ],
    ),
    "furiosa-smi-info-full_2024.2_4rngd.txt": Expected(
        "furiosa-smi-info",
        [
            rngd(0, FW_2024_2, 30.0, 35.0, "0000:30:00.0")
            | full("8EAE95DA", "RNGD000002")
            | NO_CLOCK
            | number(510),
            rngd(1, FW_2024_2, 32.97, 36.0, "0000:3f:00.0")
            | full("50D4EF2E", "RNGD000126")
            | NO_CLOCK
            | number(506),
            rngd(2, FW_2024_2, 32.6, 36.0, "0000:40:00.0")
            | full("B45DF4F9", "RNGD000128")
            | NO_CLOCK
            | number(504),
            rngd(3, FW_2024_2, 31.67, 36.0, "0000:41:00.0")
            | full("2D56DDB6", "RNGD000123")
            | NO_CLOCK
            | number(502),
        ],
    ),
    "furiosa-smi-info-full_2025.2_4rngd_pert.txt": Expected(
        "furiosa-smi-info",
        [
            rngd(0, FW_2025, 30.0, 35.0, "0000:30:00.0")
            | PERT_2025
            | full("8EAE95DA", "RNGD000002")
            | NO_CLOCK
            | number(510),
            rngd(1, FW_2025, 32.97, 36.0, "0000:3f:00.0")
            | PERT_2025
            | full("50D4EF2E", "RNGD000126")
            | NO_CLOCK
            | number(506),
            rngd(2, FW_2025, 32.6, 36.0, "0000:40:00.0")
            | PERT_2025
            | full("B45DF4F9", "RNGD000128")
            | NO_CLOCK
            | number(504),
            rngd(3, FW_2025, 31.67, 36.0, "0000:41:00.0")
            | PERT_2025
            | full("2D56DDB6", "RNGD000123")
            | NO_CLOCK
            | number(502),
        ],
    ),
    "furiosa-smi-status_2024.1_2rngd_occupied.txt": Expected(
        "furiosa-smi-status", [state(index, used=0.0, held=True) for index in range(2)]
    ),
    "furiosa-smi-status_2024.2_4rngd.txt": Expected(
        "furiosa-smi-status", [state(index, used=0.0, held=False) | ALIVE for index in range(4)]
    ),
    # Cores that nobody holds: the document says 0 of them, where tables of that time have `-`.
    "furiosa-smi-status_2026.1.1_idle.json": Expected(
        "furiosa-smi-status",
        [
            state(0, used=0.0, held=False)
            | ALIVE
            | {"memory_used_bytes": 0, "memory_total_bytes": 51_002_736_640}
        ],
    ),
    "furiosa-smi-ps_2024.1.txt": Expected(
        "furiosa-smi-ps",
        processes=[{"pid": 132529, "device_index": 0, "cores": (0, 1, 2, 3), "name": "python3"}],
    ),
    "furiosa-smi-ps_2024.2.txt": Expected(
        "furiosa-smi-ps",
        processes=[
            {"pid": 3283, "device_index": card, "cores": tuple(range(8)), "name": "furiosa-mlperf"}
            for card in range(4)
        ],
    ),
    "furiosactl-info_0.5_warboy.txt": Expected(
        "furiosactl-info", [warboy(0, "FuriosaAI Warboy", 34.0, 12.92, "0000:01:00.0") | number(510)]
    ),
    "furiosactl-info_k8s-pod_warboy.txt": Expected(
        "furiosactl-info", [warboy(0, "FuriosaAI Warboy", 40.0, 1.37, "0000:01:00.0") | number(509)]
    ),
    "furiosactl-info_0.9_warboy.txt": Expected(
        "furiosactl-info",
        [warboy(1, "warboy", 54.0, 0.99, "0000:44:00.0") | {"firmware_version": "1.6.0, 3c10fd3"}],
    ),
    "furiosactl-info-full_0.9_warboy.txt": Expected(
        "furiosactl-info",
        [
            warboy(1, "warboy", 54.0, 0.99, "0000:44:00.0")
            | full("00000000", "WBYB000000")
            | number(511)
            | {"firmware_version": "1.6.0, 3c10fd3"}
        ],
    ),
    "furiosactl-info_0.10_warboy.json": Expected(
        "furiosactl-info",
        [
            warboy(7, "warboy", 47.0, 0.99, "0000:d6:00.0")
            | full("<device_", "<device_sn")
            | number(492)
            | {"firmware_version": "1.6.0, 7a3b908"}
        ],
    ),
    "furiosactl-list_0.5_warboy.txt": Expected(
        "furiosactl-list",
        [
            {
                "vendor": "furiosa",
                "index": 0,
                "device_name": "npu0",
                "cores.0.occupied": False,
                "cores.1.occupied": False,
                "device_files": ("npu0", "npu0pe0", "npu0pe1", "npu0pe0-1"),
            }
        ],
    ),
    "furiosactl-ps_0.8_warboy.txt": Expected(
        "furiosactl-ps",
        processes=[{"pid": 132529, "device_index": 0, "cores": (0, 1), "name": "python3"}],
    ),
}

# Files of other kinds, and why no source of `accelscope parse` is for them.
OTHERS = {
    "furiosa-smi-drain_2026.txt": "a transcript of `drain`, which changes a card and shows no values",
    "furiosa-smi-topo_2024.1.txt": "how cards are connected; /sys tells the NUMA node",
    "furiosa-smi-topo_2024.2_4rngd.txt": "how cards are connected; /sys tells the NUMA node",
    "furiosa-smi-topo_2026_4rngd.txt": "how cards are connected; /sys tells the NUMA node",
    "furiosa-smi-version_2026.1.0.txt": "read by parse_version, below",
    "furiosa-smi-version_2026.1.1.txt": "read by parse_version, below",
    "furiosactl-top_0.9_warboy.txt": "an endless display; utilisation comes from perf_regs",
    "metrics-exporter_2024.1.prom": "the page of another exporter: tests of the dialect read it",
    "sysfs_ne_clk_freq_info_warboy.txt": "a file of the driver: read below",
    "sysfs_rngd_power-limits.txt": "a table that its author made of files of the driver: read below",
    "sysfs_test-0.txt": "a tree of the driver: test_furiosa_sysfs_tree reads it",
    "sysfs_warboy_hwmon_labels.txt": "labels of the driver: test_furiosa_sysfs_tree reads them",
}


def flat(device: Device) -> Iterator[tuple[str, object]]:
    """A device as places and values, without what is not there. Its id is made of the rest."""
    for field in fields(device):
        value = getattr(device, field.name)
        match field.name:
            case "id" | "stale":
                continue
            case "health":
                if value.vendor_word or value.reason:
                    yield "health.state", value.state.value
                    yield "health.vendor_word", value.vendor_word
            case "cores":
                for core in value:
                    for name in ("utilization_ratio", "clock_hertz", "occupied"):
                        if getattr(core, name) is not None:
                            yield f"cores.{core.index}.{name}", getattr(core, name)
            case "clocks":
                yield from ((f"clocks.{clock.domain}", clock.hertz) for clock in value)
            case "absent":
                yield from ((f"absent.{absence.field}", absence.reason.value) for absence in value)
            case "uuid" | "serial":
                if value is not None:
                    yield field.name, value[: 8 if field.name == "uuid" else 10]
            case _ if value not in (None, ()):
                yield field.name, getattr(value, "value", value)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_capture_is_read_as_a_person_reads_it(name: str, captures: Path) -> None:
    expected = EXPECTED[name]
    text = (captures / FOLDER / name).read_text(encoding="utf-8")
    parsed = sources()[expected.source].parse(text, None)
    assert parsed.error is None
    assert parsed.rejected == ()
    assert [dict(flat(device)) for device in parsed.devices] == list(expected.devices)
    found = [
        {"pid": p.pid, "device_index": p.device_index, "cores": p.cores, "name": p.name}
        for p in parsed.processes
    ]
    assert found == list(expected.processes)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("furiosa-smi-version_2026.1.0.txt", "2026.1.0, 96977d5"),
        ("furiosa-smi-version_2026.1.1.txt", "2026.3.1, e28c5c0"),
    ],
)
def test_the_drivers_version_is_read_in_both_forms(name: str, version: str, captures: Path) -> None:
    assert driver_version((captures / FOLDER / name).read_text()) == version


def test_warboys_clock_file(captures: Path) -> None:
    clocks = sysfs.clocks((captures / FOLDER / "sysfs_ne_clk_freq_info_warboy.txt").read_text())
    assert clocks is not None
    # Not dram, whose 4266 MT/s are transfers.
    assert [(clock.domain, clock.hertz) for clock in clocks] == [
        ("ne_tensor", 2e9),
        ("ne_memory", 1e9),
        ("ne_operation", 1e9),
    ]


def test_the_throttle_reason_of_a_capped_card(captures: Path) -> None:
    rows = (captures / FOLDER / "sysfs_rngd_power-limits.txt").read_text().splitlines()
    [reasons] = [row.split()[1:] for row in rows if row.startswith("throttle_reason ")]
    active = []
    for text in reasons:
        throttles = sysfs.throttles(text, "")
        assert throttles is not None
        active.append([throttle.reason for throttle in throttles if throttle.active])
    assert active == [[], ["app_power_cap"], [], []]


def test_every_capture_is_in_a_table(captures: Path) -> None:
    there = {path.name for path in (captures / FOLDER).iterdir()}
    assert there == {*EXPECTED, *OTHERS}
    assert not EXPECTED.keys() & OTHERS.keys()
