"""All captures of NVIDIA's tools, with expected values that were read from the files by hand.

Ids of machines of other people are shortened here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest

from accelscope.model import Device, Partition, Process
from accelscope.parsing import sources

MIB = 2**20
MHZ = 1e6
NONE = object()  # the file has neither a value nor an absence

UNSUPPORTED = "not_supported"
IN_INSTANCE = {"gpu_instance_id": 2, "compute_instance_id": 1, "partition": "nvidia:0000:83:00.0/gi2/ci1"}
MASKED = "GPU-00000000"  # the author of these captures wrote zeros, which identify nothing


@dataclass(frozen=True)
class Expected:
    source: str
    columns: str | None = None
    devices: Sequence[dict[str, object]] = ()
    processes: Sequence[dict[str, object]] = ()
    error: str | None = None
    rejected: Sequence[str] = field(default=())


def query(*devices: dict[str, object], columns: str | None = None) -> Expected:
    return Expected("nvidia-smi-query-gpu", columns, devices)


def xml(device: dict[str, object], *processes: dict[str, object]) -> Expected:
    return Expected("nvidia-smi-xml", None, [device], processes)


def table(device: dict[str, object], *processes: dict[str, object]) -> Expected:
    return Expected("nvidia-smi-table", None, [device], processes)


def instance(
    index: int, gpu: int, compute: int, multiprocessors: int, *, used: int | None, total: int | None
) -> dict[str, object]:
    return {
        "index": index,
        "gpu_instance_id": gpu,
        "compute_instance_id": compute,
        "multiprocessors": multiprocessors,
        "memory_used_bytes": NONE if used is None else used * MIB,
        "memory_total_bytes": NONE if total is None else total * MIB,
    }


def pmon(*processes: dict[str, object]) -> Expected:
    return Expected("nvidia-smi-pmon", None, (), processes)


def apps(*processes: dict[str, object], columns: str | None = None, device: str | None = None) -> Expected:
    """`device` identifies the device of all processes if the uuids are masked."""
    at: dict[str, object] = {} if device is None else {"device": device}
    return Expected("nvidia-smi-compute-apps", columns, (), [{**process, **at} for process in processes])


def error(reason: str, *devices: dict[str, object], source: str = "nvidia-smi-query-gpu") -> Expected:
    return Expected(source, None, devices, error=reason)


def memory(total: int, used: int, free: int, reserved: int | None = None) -> dict[str, object]:
    values: dict[str, object] = {
        "memory_total_bytes": total * MIB,
        "memory_used_bytes": used * MIB,
        "memory_free_bytes": free * MIB,
    }
    return {**values, "memory_reserved_bytes": NONE if reserved is None else reserved * MIB}


def bar1(total: int, used: int) -> dict[str, object]:
    return {"bar1_total_bytes": total * MIB, "bar1_used_bytes": used * MIB}


def limits(limit: float, default: float, low: float, high: float) -> dict[str, object]:
    return {
        "power_limit_watts": limit,
        "power_limit_default_watts": default,
        "power_limit_min_watts": low,
        "power_limit_max_watts": high,
    }


def clocks(**megahertz: tuple[float, float | None]) -> dict[str, object]:
    values: dict[str, object] = {}
    for domain, (now, top) in megahertz.items():
        values[f"clocks.{domain}"] = now * MHZ
        values[f"clocks.{domain}.max"] = NONE if top is None else top * MHZ
    return values


def pcie(generation: int, width: int, of_generation: int, of_width: int) -> dict[str, object]:
    return {
        "pcie.generation": generation,
        "pcie.width": width,
        "pcie.max_generation": of_generation,
        "pcie.max_width": of_width,
    }


def traffic(transmit: int, receive: int) -> dict[str, object]:
    return {
        "pcie.replays_total": 0,
        "pcie.transmit_bytes_per_second": transmit * 1000,
        "pcie.receive_bytes_per_second": receive * 1000,
    }


def use(gpu: float, memory: float, encoder: float = 0.0, decoder: float = 0.0) -> dict[str, object]:
    return {
        "utilization_ratio": gpu,
        "memory_utilization_ratio": memory,
        "encoder_utilization_ratio": encoder,
        "decoder_utilization_ratio": decoder,
    }


def absent(*places: str, reason: str = UNSUPPORTED) -> dict[str, object]:
    """Absences with their reason. A group such as `ecc` includes all its members."""
    return {f"absent.{place}": reason for place in places}


def heat(gpu: float, slowdown: float, shutdown: float) -> dict[str, object]:
    return {
        "temperature_celsius": gpu,
        "sensors.gpu": gpu,
        "temperature_slowdown_celsius": slowdown,
        "temperature_shutdown_celsius": shutdown,
    }


NO_USE = absent(*use(0, 0))
NO_JPEG_OFA = absent("jpeg_utilization_ratio", "optical_flow_utilization_ratio")
NO_ECC = absent("ecc", "ecc_enabled", "retired_pages")
NO_MEMORY_SENSOR = absent("sensors.memory")
NO_MIG = absent("mig_enabled")
CONSUMER = {**NO_ECC, **NO_MEMORY_SENSOR}
ECC_ZERO = {
    f"ecc.{severity}.{span}{block}": 0
    for severity in ("corrected", "uncorrected")
    for span in ("volatile", "lifetime")
    for block in ("", ".dram", ".sram")
}
ROWS_ZERO = {
    "remapped_rows.correctable": 0,
    "remapped_rows.uncorrectable": 0,
    "remapped_rows.pending": False,
    "remapped_rows.failed": False,
}
THROTTLES = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "sync_boost",
    "display_clock_setting",
)


def throttled_by(*reasons: str) -> dict[str, object]:
    return {f"throttles.{reason}": reason in reasons for reason in THROTTLES}


def process(pid: int, name: str | None, kind: str | None, **values: object) -> dict[str, object]:
    return {"pid": pid, "name": name or NONE, "type": kind or NONE, **values}


def graphics(pid: int, name: str, mebibytes: int) -> dict[str, object]:
    return process(pid, name, "graphics", memory_bytes=mebibytes * MIB)


def row(gpu: int, pid: int, kind: str, cells: str, name: str, **values: object) -> dict[str, object]:
    """A process of pmon: `cells` are sm, mem, enc, dec in percent as the file has them."""
    places = use(0, 0)
    ratios = {
        place: NONE if cell == "-" else int(cell) / 100
        for place, cell in zip(places, cells.split(), strict=True)
    }
    return {"pid": pid, "device_index": gpu, "device": NONE, "type": kind, "name": name, **ratios, **values}


def h100(**values: object) -> dict[str, object]:
    return {
        "index": 0,
        "uuid": MASKED,
        "model": "NVIDIA H100 80GB HBM3",
        "pci_address": "0000:00:09.0",
        "driver_version": "590.48.01",
        "firmware_version": "96.00.A5.00.01",
        "performance_state": 0,
        "persistence_mode": True,
        "ecc_enabled": True,
        **limits(700, 700, 200, 700),
        **clocks(graphics=(1980, 1980), sm=(1980, 1980), memory=(2619, 2619), video=(1545, None)),
        **pcie(5, 16, of_generation=5, of_width=16),
        **throttled_by(),
        **ECC_ZERO,
        **absent("fans", "retired_pages"),
        "health": "unknown",
        **values,
    }


PRO_6000_COLUMNS = (
    "index,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,utilization.memory,"
    "utilization.encoder,utilization.decoder,power.limit,clocks.gr,clocks.mem,clocks.max.gr,clocks.max.mem,"
    "fan.speed,pstate,pcie.link.gen.current,pcie.link.width.current,temperature.memory,uuid,name"
)


def pro_6000(
    index: int,
    uuid: str,
    gpu: float,
    used: int,
    celsius: int,
    watts: float,
    traffic: float,
    mhz: int,
    fan: float,
) -> dict[str, object]:
    return {
        "index": index,
        "uuid": uuid,
        "model": "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        **use(gpu, traffic),
        "memory_used_bytes": used * MIB,
        "memory_total_bytes": 97887 * MIB,
        "memory_free_bytes": NONE,
        "temperature_celsius": celsius,
        "power_watts": watts,
        "power_limit_watts": 300.0,
        **clocks(graphics=(mhz, 3090), memory=(13365, 14001)),
        "fans.0": fan,
        "performance_state": 1,
        "pcie.generation": 5,
        "pcie.width": 16,
        "pcie.max_width": NONE,
        **NO_MEMORY_SENSOR,
        "serial": NONE,
    }


def a6000(index: int, uuid: str, **values: object) -> dict[str, object]:
    return {
        "index": index,
        "uuid": uuid,
        "model": "NVIDIA RTX A6000",
        "power_limit_watts": 300.0,
        "memory_used_bytes": 6 * MIB,
        "memory_total_bytes": 49140 * MIB,
        "health": "unknown",
        **values,
    }


def titan_x(index: int, uuid: str, celsius: int, used: int, **values: object) -> dict[str, object]:
    return {
        "index": index,
        "uuid": uuid,
        "model": "GeForce GTX TITAN X",
        "temperature_celsius": celsius,
        "memory_used_bytes": used * MIB,
        "memory_total_bytes": 12287 * MIB,
        "power_watts": NONE,
        **values,
    }


def win_row(pid: int, name: str, cells: str = "- - - -", kind: str = "both") -> dict[str, object]:
    return row(0, pid, kind, cells, name, memory_bytes=NONE)


def app(pid: int, name: str | None, mebibytes: int | None, device: str = MASKED) -> dict[str, object]:
    used = NONE if mebibytes is None else mebibytes * MIB
    return process(pid, name, "compute", memory_bytes=used, device=device, device_index=NONE)


def windows_process(pid: int, name: str | None = None) -> dict[str, object]:
    return process(pid, name, "both", memory_bytes=NONE, gpu_instance_id=NONE, device_index=0)


def driverless(**values: object) -> dict[str, object]:
    """The consumer cards of the XML captures: one GPU in the log, so that its index is known."""
    return {"index": 0, "health": "unknown", **values}


CAPTURES: dict[str, Expected] = {
    "err_device-handle_new.txt": error(
        "device_lost",
        {"pci_address": "0000:07:00.0", "health": "lost", "uuid": NONE, "index": NONE, "power_watts": NONE},
    ),
    "err_driver-not-loaded.txt": error("driver_not_loaded"),
    "err_invalid-field.txt": error("unknown_field"),
    "err_no-devices.txt": error("no_devices"),
    "pmon_err_not-supported.txt": error("not_supported", source="nvidia-smi-pmon"),
    "query-gpu_h100_590_load.csv": query(
        h100(
            mig_enabled=False,
            **use(1.0, 0.11),
            jpeg_utilization_ratio=0.0,
            optical_flow_utilization_ratio=0.0,
            **memory(81559, 19818, 61263, 479),
            temperature_celsius=59.0,
            **{"sensors.gpu": 59.0, "sensors.memory": 54.0},
            power_watts=631.95,
            **ROWS_ZERO,
        )
    ),
    "query-gpu_h100mig_590_load.csv": query(
        h100(
            mig_enabled=True,
            **NO_USE,
            **NO_JPEG_OFA,
            **memory(81559, 11125, 69956, 479),
            temperature_celsius=53.0,
            **{"sensors.memory": 59.0},
            power_watts=433.78,
            **absent("remapped_rows"),
        )
    ),
    "query-gpu_h200_590_idle.csv": query(
        {
            "index": 0,
            "uuid": MASKED,
            "model": "NVIDIA H200",
            "pci_address": "0000:83:00.0",
            "driver_version": "590.48.01",
            "firmware_version": "96.00.A5.00.03",
            "performance_state": 0,
            "mig_enabled": False,
            **use(0.0, 0.0),
            **memory(143771, 0, 143158, 614),
            "temperature_celsius": 28.0,
            "sensors.memory": 32.0,
            "power_watts": 77.71,
            **limits(700, 700, 200, 700),
            **clocks(graphics=(345, 1980), sm=(345, 1980), memory=(3201, 3201), video=(765, None)),
            **throttled_by("gpu_idle"),
            **ECC_ZERO,
            **ROWS_ZERO,
            **absent("fans", "retired_pages"),
        }
    ),
    "query-gpu_l40s_595_load.csv": query(
        {
            "model": "NVIDIA L40S",
            "pci_address": "0000:01:00.0",
            "driver_version": "595.80",
            "firmware_version": "95.02.66.00.02",
            "persistence_mode": False,
            "ecc_enabled": True,
            **use(0.09, 0.02, encoder=0.60),
            **memory(46068, 1235, 44225, 609),
            "temperature_celsius": 54.0,
            "power_watts": 110.23,
            **limits(350, 350, 100, 350),
            **clocks(graphics=(2520, 2520), sm=(2520, 2520), memory=(9001, 9001), video=(1965, None)),
            **pcie(4, 16, of_generation=4, of_width=16),
            **throttled_by(),
            **ECC_ZERO,
            **ROWS_ZERO,
            **NO_MIG,
            **NO_MEMORY_SENSOR,
            **absent("fans"),
        }
    ),
    "query-gpu_rtx2080s_595_idle.csv": query(
        {
            "model": "NVIDIA GeForce RTX 2080 SUPER",
            "pci_address": "0000:0c:00.0",
            "driver_version": "595.71.05",
            "firmware_version": "90.04.7A.40.73",
            "performance_state": 8,
            **use(0.0, 0.09),
            **memory(8192, 214, 7571, 408),
            "temperature_celsius": 40.0,
            "fans.0": 0.38,
            "power_watts": 39.32,
            **limits(250, 250, 105, 350),
            **clocks(graphics=(765, 2145), sm=(765, 2145), memory=(810, 7751), video=(705, None)),
            **pcie(1, 16, of_generation=3, of_width=16),
            **throttled_by("sw_power_cap"),
            **CONSUMER,
            **NO_MIG,
            **absent("serial", "remapped_rows"),
        }
    ),
    "query-gpu_rtx4080s_595_load.csv": query(
        {
            "model": "NVIDIA GeForce RTX 4080 SUPER",
            "pci_address": "0000:01:00.0",
            "performance_state": 2,
            **use(0.07, 0.02, encoder=0.72),
            **memory(16376, 1474, 14470, 434),
            "temperature_celsius": 46.0,
            "fans.0": 0.0,
            "power_watts": 84.24,
            **limits(320, 320, 150, 400),
            **clocks(graphics=(2805, 3165), sm=(2805, 3165), memory=(11251, 11501), video=(2145, None)),
            **pcie(4, 16, of_generation=4, of_width=16),
            **throttled_by(),
            "ecc.uncorrected.volatile.sram_parity": 0,
            "ecc.uncorrected.lifetime.sram_secded": 0,
            **absent("serial", "ecc_enabled", "ecc.uncorrected.volatile", "ecc.corrected.lifetime"),
            **NO_MEMORY_SENSOR,
        }
    ),
    "query-gpu-nounits_rtxpro6000x4_595.csv": query(
        pro_6000(0, "GPU-e16d248c", 0.98, 90538, 81, 299.35, 0.56, 1905, 0.54),
        pro_6000(1, "GPU-45007176", 0.91, 90536, 68, 295.33, 0.43, 2040, 0.40),
        pro_6000(2, "GPU-d9a18a51", 1.00, 48243, 79, 299.98, 0.75, 1095, 0.53),
        pro_6000(3, "GPU-e3bec724", 1.00, 48209, 71, 299.99, 0.59, 1087, 0.43),
        columns=PRO_6000_COLUMNS,
    ),
    "query-gpu_a6000_unknown-error.csv": query(
        a6000(
            0, "GPU-0472e0b4", **absent("temperature_celsius", "fans", "power_watts", reason="driver_error")
        ),
        a6000(
            1,
            "GPU-ec5ae7f5",
            temperature_celsius=32.0,
            power_watts=25.02,
            **absent("fans", reason="driver_error"),
        ),
        a6000(
            2,
            "GPU-0857e97c",
            power_watts=15.47,
            **{"fans.0": 0.30},
            **absent("temperature_celsius", reason="driver_error"),
        ),
        a6000(
            3,
            "GPU-d5f30760",
            temperature_celsius=34.0,
            **absent("fans", "power_watts", reason="driver_error"),
        ),
        columns="index,name,uuid,temperature.gpu,fan.speed,power.draw,power.limit,memory.used,memory.total",
    ),
    "query-gpu_not-supported_titanx.csv": query(
        titan_x(0, "GPU-10fb0fbd", 80, 8000, utilization_ratio=0.76),
        titan_x(1, "GPU-d1df4664", 36, 9000, utilization_ratio=0.0),
        titan_x(2, "GPU-50205d95", 71, 8520, **absent("utilization_ratio")),
        columns="index,uuid,name,temperature.gpu,utilization.gpu,memory.used,memory.total",
    ),
    "list_h100mig_590.txt": Expected(
        "nvidia-smi-list",
        devices=[
            {
                "index": 0,
                "uuid": MASKED,
                "model": "NVIDIA H100 80GB HBM3",
                "partitions": [
                    {"index": 0, "profile": "3g.40gb", "uuid": "MIG-00000000"},
                    {"index": 1, "profile": "2g.20gb", "uuid": "MIG-00000001"},
                    {"index": 2, "profile": "1g.10gb", "uuid": "MIG-00000002"},
                    {"index": 3, "profile": "1g.10gb", "uuid": "MIG-00000003"},
                ],
            }
        ],
    ),
    "compute-apps-nounits_rtxpro6000x4_595.csv": apps(
        app(2094147, None, 90480, "GPU-e16d248c"),
        app(2094383, None, 90478, "GPU-45007176"),
        app(377306, None, 550, "GPU-d9a18a51"),
        app(377813, None, 47594, "GPU-d9a18a51"),
        app(377306, None, 550, "GPU-e3bec724"),
        app(377814, None, 47560, "GPU-e3bec724"),
        columns="pid,gpu_uuid,used_memory",
    ),
    "compute-apps_h100_590_load.csv": apps(
        app(11327, "memhog", 2566),
        app(11328, "memhog", 1542),
        app(11345, "gpu_burn", 15690),
        device="0000:00:09.0",
    ),
    "compute-apps_h200_590_idle.csv": apps(),
    "compute-apps_rtx4080s_595_load.csv": apps(
        app(2165, "kwin_wayland", 25),
        app(5022, "ffmpeg", 503),
        app(5021, "ffmpeg", 360),
        device="0000:01:00.0",
    ),
    "compute-apps_win591_load.csv": apps(
        app(12444, "TextInputHost.exe", None),
        app(15076, "ShellExperienceHost.exe", None),
        app(2056, "dwm.exe", None),
        app(12332, "explorer.exe", None),
        app(20372, "NZXT CAM.exe", None),
        app(4680, "NVIDIA Share.exe", None),
        app(14160, "SearchHost.exe", None),
        app(14184, "StartMenuExperienceHost.exe", None),
        app(16280, "ControllerCompanion.exe", None),
        app(24804, "SystemSettings.exe", None),
        app(25704, "ffmpeg.exe", None),
        app(26660, "ffmpeg.exe", None),
        device="0000:0c:00.0",
    ),
    "pmon-u_h100_590_load.txt": pmon(
        row(0, 11327, "compute", "- - - -", "memhog", memory_bytes=NONE),
        row(0, 11328, "compute", "- - - -", "memhog", memory_bytes=NONE),
        row(0, 11345, "compute", "99 10 - -", "gpu_burn", memory_bytes=NONE),
    ),
    "pmon-u_h200_590_idle.txt": pmon(),
    "pmon-u_legacy_multi.txt": pmon(
        row(0, 4810, "graphics", "0 0 0 0", "Xorg"),
        row(0, 7187, "graphics", "0 0 0 0", "compiz"),
        row(0, 16250, "compute", "83 99 0 0", "python"),
        row(1, 23335, "compute", "0 0 0 0", "python"),
        row(1, 31381, "compute", "33 53 0 0", "python"),
        row(2, 19635, "compute", "39 35 0 0", "python"),
        row(3, 33317, "compute", "31 11 0 0", "python"),
    ),
    "pmon-u_rtx4080s_595_load.txt": pmon(
        row(0, 2165, "both", "- - - 0", "kwin_wayland"),
        row(0, 2496, "graphics", "- - - -", "plasma-keyboard"),
        row(0, 2620, "graphics", "- - - -", "Xwayland"),
        row(0, 2954, "graphics", "- - - -", "plasmashell"),
        row(0, 3527, "graphics", "- - - -", "xwaylandvideobr"),
        row(0, 5021, "compute", "2 0 14 -", "ffmpeg"),
        row(0, 5022, "compute", "3 1 55 -", "ffmpeg"),
    ),
    "pmon-u_win591_load.txt": pmon(
        win_row(2056, "dwm.exe"),
        win_row(4680, "NVIDIA Share.exe"),
        win_row(12332, "explorer.exe"),
        win_row(12444, "TextInputHost.ex"),
        win_row(14160, "SearchHost.exe"),
        win_row(14184, "StartMenuExperie"),
        win_row(15076, "ShellExperienceH"),
        win_row(16280, "ControllerCompan"),
        win_row(20372, "NZXT CAM.exe"),
        win_row(24804, "SystemSettings.e"),
        win_row(25704, "ffmpeg.exe", "7 2 - -", "compute"),
        win_row(26660, "ffmpeg.exe", "- - 99 -", "compute"),
    ),
    "pmon-um_2gpu_one-idle.txt": pmon(
        row(0, 3908637, "compute", "5 0 3 0", "ffmpeg", memory_bytes=1209 * MIB)
    ),
    "pmon-um_desktop_610.txt": pmon(
        row(0, 1312, "graphics", "24 3 - -", "Hyprland", memory_bytes=97 * MIB),
        row(0, 1941, "both", "- - - -", "voxtype-osd-gtk", memory_bytes=5 * MIB),
    ),
    "pmon-um_l4x2_legacy.txt": pmon(
        row(0, 7372, "compute", "2 0 2 -", "ffmpeg", memory_bytes=136 * MIB),
        row(0, 12176, "compute", "5 2 3 7", "ffmpeg", memory_bytes=782 * MIB),
        row(1, 20035, "compute", "8 2 4 1", "ffmpeg", memory_bytes=1145 * MIB),
        row(1, 20141, "compute", "2 1 1 3", "ffmpeg", memory_bytes=429 * MIB),
        row(0, 29591, "compute", "2 1 - 2", "ffmpeg", memory_bytes=435 * MIB),
    ),
    "pmon-um_legacy_graphics.txt": pmon(
        row(0, 4673, "graphics", "- - - -", "java", memory_bytes=0),
        row(0, 4765, "graphics", "0 0 - -", "Xorg", memory_bytes=4 * MIB),
    ),
    "pmon-um_legacy_noprocesses.txt": pmon(),
    "pmon-um_new_idle.txt": pmon(),
    "pmon-um_p4_legacy.txt": pmon(row(0, 5913, "compute", "71 64 0 0", "python", memory_bytes=3225 * MIB)),
    "qx_a100-sxm4-v12.xml": xml(
        {
            "index": NONE,  # one GPU of the four that are attached
            "uuid": "GPU-513536b6",
            "serial": "1650522003820",
            "model": "NVIDIA A100-SXM4-80GB",
            "architecture": "ampere",
            "device_name": "nvidia1",
            "driver_version": "535.54.03",
            "firmware_version": "92.00.36.00.02",
            "persistence_mode": False,
            "mig_enabled": True,
            "ecc_enabled": True,
            **memory(81920, 50, 80999, 869),
            **bar1(131072, 1),
            **heat(27, 89, 92),
            "sensors.memory": 44.0,
            "power_watts": 67.03,
            **limits(500, 500, 100, 500),
            "rails.graphics": 0.9125,
            **clocks(graphics=(1275, 1410), sm=(1275, 1410), memory=(1593, 1593), video=(1275, 1290)),
            **pcie(4, 16, of_generation=4, of_width=16),
            **traffic(4000, 0),
            **throttled_by(),
            "ecc.corrected.volatile.sram": 0,
            "ecc.uncorrected.lifetime.dram": 0,
            **NO_USE,
            **NO_JPEG_OFA,
            **absent("fans", "retired_pages", "remapped_rows"),
            "health": "unknown",
            "partitions": [
                {
                    "index": index,
                    "gpu_instance_id": index + 3,
                    "compute_instance_id": 0,
                    "uuid": NONE,
                    "profile": NONE,
                    "memory_total_bytes": 19968 * MIB,
                    "memory_used_bytes": 12 * MIB,
                    "memory_free_bytes": 19955 * MIB,
                    "multiprocessors": 14,
                }
                for index in range(4)
            ],
        }
    ),
    "qx_netdata_a100-sxm4-mig.xml": xml(
        {
            "index": 0,
            "uuid": "GPU-27b94a00",
            "model": "NVIDIA A100-SXM4-40GB",
            "device_name": "nvidia0",
            "driver_version": "510.47.03",
            "mig_enabled": True,
            **memory(40960, 38, 40315, 605),
            **bar1(65536, 1),
            **heat(36, 89, 92),
            "sensors.memory": 44.0,
            "power_watts": 66.92,
            **limits(400, 400, 100, 400),
            "rails.graphics": 0.88125,
            **clocks(graphics=(1410, 1410), sm=(1410, 1410), memory=(1215, 1215), video=(1275, 1290)),
            **throttled_by(),
            "ecc.corrected.lifetime.dram": 0,
            "ecc.corrected.volatile.dram": NONE,
            **NO_USE,
            "partitions": [
                {
                    "index": index,
                    "gpu_instance_id": index + 1,
                    "compute_instance_id": 0,
                    "memory_total_bytes": 19968 * MIB,
                    "memory_used_bytes": 19 * MIB,
                    "memory_free_bytes": 19948 * MIB,
                    "multiprocessors": 42,
                }
                for index in range(2)
            ],
        }
    ),
    "qx_gtx-1660-ti.xml": xml(
        driverless(
            uuid="GPU-304a277d",
            model="Graphics Device",
            architecture=NONE,
            pci_address="0000:43:00.0",
            device_name="nvidia0",
            driver_version="418.43",
            firmware_version="90.16.25.00.4C",
            performance_state=8,
            mig_enabled=NONE,
            **use(0.0, 0.01),
            **memory(5912, 0, 5912),
            **bar1(256, 2),
            **heat(40, 93, 96),
            **{"fans.0": 0.0},
            power_watts=8.93,
            **limits(130, 130, 70, 130),
            **clocks(graphics=(300, 2145), sm=(300, 2145), memory=(405, 4001), video=(540, 1950)),
            **pcie(1, 16, of_generation=3, of_width=16),
            **traffic(0, 0),
            **throttled_by("gpu_idle"),
            **CONSUMER,
            **absent("serial"),
        )
    ),
    "qx_gtx1080_495.xml": xml(
        driverless(
            uuid="GPU-d8249424",
            model="NVIDIA GeForce GTX 1080",
            architecture="pascal",
            driver_version="495.29.05",
            performance_state=2,
            **use(0.15, 0.07, encoder=0.03),
            **memory(8119, 918, 7201),
            **bar1(256, 2),
            **heat(55, 96, 99),
            **{"fans.0": 0.44},
            power_watts=42.64,
            **limits(180, 180, 90, 180),
            **clocks(graphics=(1607, 1911), sm=(1607, 1911), memory=(4513, 5005), video=(1442, 1708)),
            **pcie(3, 16, of_generation=3, of_width=16),
            **traffic(106000, 309000),
            **throttled_by(),
            **CONSUMER,
            **NO_MIG,
            **absent("remapped_rows", "rails"),
            partitions=[],
        ),
        process(18179, "ffmpeg", "compute", memory_bytes=916 * MIB, device="GPU-d8249424", device_index=0),
    ),
    "qx_netdata_rtx-2080-win.xml": xml(
        driverless(
            uuid="GPU-fbd55ed4",
            model="NVIDIA GeForce RTX 2080",
            driver_version="516.59",
            pci_address="0000:0a:00.0",
            firmware_version="90.04.23.00.db",
            **use(0.02, 0.07),
            **memory(8192, 862, 7147, 182),
            **heat(29, 97, 100),
            **{"fans.0": 0.37},
            power_watts=14.50,
            **limits(275, 275, 105, 350),
            **clocks(graphics=(193, 3060), sm=(193, 3060), memory=(403, 7560), video=(539, 1950)),
            **pcie(3, 8, of_generation=3, of_width=16),
            **traffic(13000, 91000),
            **throttled_by("gpu_idle"),
            **CONSUMER,
            **absent("persistence_mode", "device_name", "serial"),
        ),
        windows_process(7724, "PhoneExperienceHost.exe"),
        windows_process(10808),
        windows_process(11556, "ShellExperienceHost.exe"),
        windows_process(12452, "Skype.exe"),
        windows_process(12636),
        windows_process(13120),
        windows_process(14296, "explorer.exe"),
        windows_process(16508, "Cortana.exe"),
        windows_process(16592, "LogiOptionsMgr.exe"),
        windows_process(20920, "LockApp.exe"),
        windows_process(21004, "Microsoft.Photos.exe"),
        windows_process(21036, "CefSharp.BrowserSubprocess.exe"),
        windows_process(21048, "Slack.exe"),
        windows_process(21104, "TextInputHost.exe"),
        windows_process(21292, "Video.UI.exe"),
        windows_process(21472, "chrome.exe"),
        windows_process(21852, "LogiOverlay.exe"),
        windows_process(22600),
        windows_process(23652, "HxOutlook.exe"),
        windows_process(25436, "SearchHost.exe"),
        windows_process(25520),
        windows_process(25696, "Viber.exe"),
        windows_process(26972, "StartMenuExperienceHost.exe"),
        windows_process(27148, "onenoteim.exe"),
        windows_process(27628, "WorkingHours.exe"),
        windows_process(30212, "msedgewebview2.exe"),
    ),
    "qx_netdata_rtx-3060.xml": xml(
        driverless(
            uuid="GPU-473d8d0f",
            model="NVIDIA GeForce RTX 3060 Laptop GPU",
            driver_version="515.65.01",
            **use(0.0, 0.0),
            **memory(6144, 5, 5940, 197),
            **bar1(8192, 3),
            **heat(45, 102, 105),
            power_watts=8.70,
            **clocks(graphics=(210, 2100), sm=(210, 2100), memory=(405, 6001), video=(555, 1950)),
            **{"rails.graphics": 0.63125},
            **pcie(1, 8, of_generation=4, of_width=16),
            **throttled_by("gpu_idle"),
            **CONSUMER,
            **absent("fans", *limits(0, 0, 0, 0)),
        ),
        graphics(28543, "Xorg", 4),
    ),
    "qx_netdata_tesla-p100.xml": xml(
        driverless(
            uuid="GPU-d3da8716",
            model="Tesla P100-PCIE-16GB",
            architecture="pascal",
            ecc_enabled=True,
            **use(0.0, 0.0),
            **memory(16384, 0, 16280, 103),
            **bar1(16384, 2),
            **heat(38, 82, 85),
            power_watts=26.16,
            **limits(250, 250, 125, 250),
            **clocks(graphics=(405, 1328), sm=(405, 1328), memory=(715, 715), video=(835, 1328)),
            **throttled_by("gpu_idle"),
            **{
                "ecc.corrected.volatile": 0,
                "ecc.corrected.lifetime": 3,
                "ecc.corrected.lifetime.dram": 3,
                "ecc.corrected.lifetime.l2_cache": 0,
                "ecc.corrected.lifetime.l1_cache": NONE,
                "ecc.uncorrected.lifetime": 0,
                "retired_pages.corrected": 0,
                "retired_pages.uncorrected": 0,
            },
            **NO_MEMORY_SENSOR,
            **absent("fans", "remapped_rows"),
        )
    ),
    "qx_quadro-p2000-v12.xml": xml(
        driverless(
            uuid="GPU-396caaed",
            model="Quadro P2000",
            driver_version="525.125.06",
            persistence_mode=True,
            **memory(5120, 1, 5051, 66),
            **heat(34, 101, 104),
            **{"fans.0": 0.46},
            power_watts=4.61,
            **limits(75, 75, 75, 75),
            **clocks(graphics=(139, 1721), sm=(139, 1721), memory=(405, 3504), video=(544, 1556)),
            **pcie(1, 8, of_generation=3, of_width=16),
            **CONSUMER,
        )
    ),
    "qx_quadro-p400.xml": xml(
        driverless(
            uuid="GPU-8f750be4",
            model="Quadro P400",
            architecture=NONE,
            driver_version="418.43",
            **use(0.0, 0.03),
            **memory(1998, 0, 1998),
            **heat(33, 100, 103),
            **{"fans.0": 0.34},
            **clocks(graphics=(139, 1252), sm=(139, 1252), memory=(405, 2005), video=(544, 1126)),
            **CONSUMER,
            **absent("power_watts", *limits(0, 0, 0, 0)),
        )
    ),
    "qx_rtx-3060-v12.xml": xml(
        driverless(
            uuid="GPU-d6889ff6",
            model="NVIDIA GeForce RTX 3060",
            driver_version="570.124.04",
            persistence_mode=True,
            **use(0.0, 0.0),
            jpeg_utilization_ratio=0.0,
            optical_flow_utilization_ratio=0.0,
            **memory(12288, 116, 11806, 368),
            **bar1(256, 5),
            **heat(42, 95, 98),
            **{"fans.0": 0.0},
            power_watts=11.63,
            **limits(170, 170, 100, 190),
            **clocks(graphics=(210, 2145), sm=(210, 2145), memory=(405, 7501), video=(555, 1995)),
            **pcie(1, 16, of_generation=4, of_width=16),
            **traffic(550, 500),
            **throttled_by("gpu_idle"),
            **CONSUMER,
        )
    ),
    "qx_rtx-3080-v12.xml": xml(
        driverless(
            uuid="GPU-19d6d965",
            model="NVIDIA GeForce RTX 3080",
            driver_version="536.40",
            **use(0.0, 0.37),
            **memory(10240, 1128, 8938, 173),
            **bar1(16384, 1),
            **heat(31, 95, 98),
            power_watts=22.78,
            **limits(336, 320, 100, 336),
            **{"rails.graphics": 0.75},
            **clocks(graphics=(210, 2100), sm=(210, 2100), memory=(405, 9501), video=(555, 1950)),
            **traffic(1000, 6000),
            **absent("persistence_mode", "device_name"),
        ),
        graphics(835, "Xorg", 550),
        graphics(1481, "gnome-shell", 18),
        graphics(2214, "msedge", 79),
        graphics(4044, "firefox", 541),
        graphics(42416, "code", 159),
    ),
    "qx_rtx-3080-v13.xml": xml(
        driverless(
            uuid="GPU-19d6d965",
            driver_version="595.58.03",
            device_name="nvidia0",
            pci_address="0000:0c:00.0",
            performance_state=2,
            **use(0.65, 0.09),
            **memory(10240, 9184, 660, 397),
            **bar1(16384, 9218),
            **heat(27, 95, 98),
            power_watts=142.33,
            **limits(320, 320, 100, 336),
            **clocks(graphics=(1950, 2100), sm=(1950, 2100), memory=(9251, 9501), video=(1710, 1950)),
            **pcie(4, 16, of_generation=4, of_width=16),
            **traffic(1066699, 14742333),
            **throttled_by(),
            **CONSUMER,
        )
    ),
    "qx_rtx-3090-v12.xml": xml(
        driverless(
            uuid="GPU-12345678",
            model="NVIDIA GeForce RTX 3090",
            pci_address="0000:00:10.0",
            driver_version="525.147.05",
            persistence_mode=True,
            performance_state=8,
            **use(0.0, 0.0),
            **memory(24576, 1, 24258, 316),
            **bar1(32768, 2),
            **heat(37, 95, 98),
            **{"fans.0": 0.0, "rails.graphics": 0.0},
            power_watts=27.23,
            **limits(200, 350, 100, 375),
            **clocks(graphics=(0, 2100), sm=(0, 2100), memory=(405, 9751), video=(555, 1950)),
            **pcie(1, 16, of_generation=4, of_width=16),
            **throttled_by("gpu_idle"),
            **CONSUMER,
        )
    ),
    "qx_tesla-t4.xml": xml(
        driverless(
            uuid="GPU-d37e67a5",
            model="Tesla T4",
            architecture="turing",
            pci_address="0000:00:1e.0",
            driver_version="515.105.01",
            firmware_version="90.04.84.00.06",
            ecc_enabled=True,
            **use(0.0, 0.0),
            **memory(15360, 1032, 13939, 388),
            **bar1(256, 5),
            **heat(40, 93, 96),
            power_watts=26.78,
            **limits(70, 70, 60, 70),
            **clocks(graphics=(585, 1590), sm=(585, 1590), memory=(5000, 5001), video=(810, 1470)),
            **pcie(3, 8, of_generation=3, of_width=16),
            **{
                "ecc.corrected.volatile.sram": 0,
                "ecc.uncorrected.lifetime.dram": 0,
                "retired_pages.corrected": 0,
                "retired_pages.uncorrected": 0,
            },
            **throttled_by(),
            **NO_MEMORY_SENSOR,
            **absent("fans", "remapped_rows"),
        ),
        graphics(675, "Xorg", 22),
        process(5762, "python", "compute", memory_bytes=1005 * MIB),
    ),
}

TABLES = {
    "table_err_gb10_reset_excerpt.txt": table(
        {
            "pci_address": "000f:01:00.0",
            "model": "NVIDIA GB10",
            "temperature_celsius": 35.0,
            "performance_state": 8,
            "persistence_mode": True,
            **absent("memory_used_bytes", "memory_total_bytes", "utilization_ratio", "power_watts", "ecc"),
            **absent("fans", reason="driver_error"),
        }
    ),
    "table_err_rtx4090_515.txt": table(
        {
            "pci_address": "0000:01:00.0",
            "model": "NVIDIA GeForce ...",
            "driver_version": "515.65.01",
            "ecc_enabled": False,
            "temperature_celsius": 59.0,
            "power_watts": 66.0,
            "power_limit_watts": 480.0,
            "memory_used_bytes": 120 * MIB,
            "memory_total_bytes": 24564 * MIB,
            "utilization_ratio": 0.0,
            **absent("mig_enabled"),
            **absent("fans", reason="driver_error"),
        }
    ),
    "table_h200mig_590_load.txt": table(
        {
            "pci_address": "0000:83:00.0",
            "model": "NVIDIA H200",
            "driver_version": "590.48.01",
            "ecc_enabled": True,
            "mig_enabled": True,
            "power_watts": 295.0,
            "memory_used_bytes": 16959 * MIB,
            "partitions": [
                instance(0, 2, 0, 16, used=16925, total=71424),
                instance(1, 2, 1, 32, used=None, total=None),  # the memory is that of its GPU instance
                instance(2, 3, 0, 32, used=17, total=33280),
                instance(3, 9, 0, 16, used=9, total=16384),
                instance(4, 10, 0, 16, used=9, total=16384),
            ],
            **absent("utilization_ratio", "fans"),
        },
        {**process(12249, "memhog", "compute", memory_bytes=2194 * MIB), **IN_INSTANCE},
        {**process(12250, "memhog", "compute", memory_bytes=1170 * MIB), **IN_INSTANCE},
        {**process(12267, "gpu_burn", "compute", memory_bytes=13526 * MIB), **IN_INSTANCE},
    ),
    "table_l40s_595_load.txt": table(
        {
            "pci_address": "0000:01:00.0",
            "driver_version": "595.80",
            "persistence_mode": False,
            "ecc_enabled": True,
            "ecc.uncorrected.volatile": 0,
            "utilization_ratio": 0.09,
            "power_limit_watts": 350.0,
            "memory_total_bytes": 46068 * MIB,
            **absent("fans", "mig_enabled"),
        },
        process(20037, "ffmpeg", "compute", memory_bytes=538 * MIB, device="0000:01:00.0"),
        process(20038, "ffmpeg", "compute", memory_bytes=681 * MIB, gpu_instance_id=NONE),
    ),
    "table_rtx2080s_610_load.txt": table(
        {
            "pci_address": "0000:0c:00.0",
            "model": "NVIDIA GeForce RTX 2080 ...",
            "driver_version": "610.57.04",
            "fans.0": 0.38,
            "performance_state": 2,
            "utilization_ratio": 0.08,
            **absent("ecc", "mig_enabled"),
        },
        graphics(1720, "gnome-shell", 173),
        graphics(4556, "Xwayland", 3),
        process(28511, "ffmpeg", "compute", memory_bytes=230 * MIB),
        process(28512, "ffmpeg", "compute", memory_bytes=370 * MIB),
    ),
}
CAPTURES |= TABLES

OTHER_KINDS = {
    "accounted-apps_h200mig_590_idle.csv": "finished processes: --query-accounted-apps is no source",
    "dmon_h100_590_load.txt": "dmon has no values that the query lacks",
    "dmon_h100mig_590_load.txt": "dmon has no values that the query lacks",
    "q_h200mig_590_load.txt": "-q for eyes: the same as XML is a source",
    "query-gpu-fields_590.txt": "a list of field names, no reading",
    "query-gpu-fields_595.txt": "a list of field names, no reading",
    "query-gpu-fields_610.txt": "a list of field names, no reading",
    "version_595.txt": "versions of the tool, no device",
}


def test_every_capture_has_expected_values(captures: Path) -> None:
    found = {path.name for path in (captures / "nvidia").iterdir()}
    assert found == CAPTURES.keys() | OTHER_KINDS.keys()


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_gives_the_expected_values(captures: Path, name: str) -> None:
    expected = CAPTURES[name]
    columns = expected.columns.split(",") if expected.columns else None
    text = (captures / "nvidia" / name).read_text(encoding="utf-8")
    parsed = sources()[expected.source].parse(text, columns)

    assert (parsed.error and parsed.error.reason) == expected.error
    if expected.error is None:
        assert [rejection.reason for rejection in parsed.rejected] == list(expected.rejected)
    assert len(parsed.devices) == len(expected.devices)
    for device, values in zip(parsed.devices, expected.devices, strict=True):
        assert_values(device_facts(device), values)
    assert [process.pid for process in parsed.processes] == [values["pid"] for values in expected.processes]
    for found, values in zip(parsed.processes, expected.processes, strict=True):
        assert_values(plain_facts(found), values)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (source, name)
        for source in sources()
        if source.startswith("nvidia-smi-")
        for name in OTHER_KINDS
        if not (source == "nvidia-smi-version" and name.startswith("version"))
        # The first has columns of the query, the second is a header of one column on each line.
        if not (source == "nvidia-smi-query-gpu" and name.startswith(("accounted-apps", "query-gpu-fields")))
    ],
)
def test_a_capture_of_another_command_gives_no_values(captures: Path, source: str, name: str) -> None:
    text = (captures / "nvidia" / name).read_text(encoding="utf-8")
    parsed = sources()[source].parse(text, None)
    assert parsed.devices == ()
    assert parsed.processes == ()
    assert parsed.error is not None


def test_the_versions_of_a_driver_are_read(captures: Path) -> None:
    text = (captures / "nvidia" / "version_595.txt").read_text(encoding="utf-8")
    assert dict(sources()["nvidia-smi-version"].parse(text, None).versions) == {
        "nvidia_smi": "595.71.05",
        "nvml": "595.71",
        "driver": "595.71.05",
        "cuda": "13.2",
    }


@pytest.mark.parametrize("source", [name for name in sources() if name.startswith("nvidia-smi-")])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_rejected_by_every_other_source(captures: Path, source: str, name: str) -> None:
    if source != "nvidia-smi-table":
        text = (captures / "nvidia" / name).read_text(encoding="utf-8")
        assert sources()[source].parse(text, None).error is not None


def assert_values(facts: dict[str, Any], values: dict[str, object]) -> None:
    wrong = {}
    for place, value in values.items():
        found = facts.get(place, NONE)
        if place in ("uuid", "device") and isinstance(value, str):
            right = str(found).removeprefix("nvidia:").startswith(value)
        elif place == "partitions":
            right = isinstance(value, list) and _partitions_are(facts.get(place, []), value)
        else:
            right = found is NONE if value is NONE else found is not NONE and found == value
        if not right:
            wrong[place] = {"expected": "nothing" if value is NONE else value, "found": found}
        if place.startswith("absent."):
            missing = place.removeprefix("absent.")
            there = [f for f in facts if f == missing or ("." not in missing and f.startswith(f"{missing}."))]
            assert not there, f"{missing} has a value"
    assert not wrong


def _partitions_are(found: list[Partition], values: list[dict[str, object]]) -> bool:
    assert len(found) == len(values)
    for partition, expected in zip(found, values, strict=True):
        assert_values(plain_facts(partition), expected)
    return True


def plain_facts(thing: Process | Partition) -> dict[str, Any]:
    values = {f.name: getattr(thing, f.name) for f in fields(thing)}
    return {name: value for name, value in values.items() if value is not None and value != ()}


def device_facts(device: Device) -> dict[str, Any]:
    return dict(_device_facts(device))


def _device_facts(device: Device) -> Iterator[tuple[str, Any]]:
    for f in fields(device):
        value = getattr(device, f.name)
        if value is not None and not isinstance(value, tuple) and f.name not in ("pcie", "remapped_rows"):
            yield f.name, value.state if f.name == "health" else value
    for name in ("pcie", "remapped_rows"):
        group = getattr(device, name)
        for f in fields(group) if group else ():
            if getattr(group, f.name) is not None:
                yield f"{name}.{f.name}", getattr(group, f.name)
    yield from ((f"sensors.{sensor.name}", sensor.celsius) for sensor in device.sensors)
    yield from ((f"rails.{rail.name}", rail.volts) for rail in device.rails)
    yield from ((f"fans.{fan.index}", fan.speed_ratio) for fan in device.fans)
    yield from ((f"throttles.{throttle.reason}", throttle.active) for throttle in device.throttles)
    yield from ((f"retired_pages.{pages.severity}", pages.count) for pages in device.retired_pages)
    yield from ((f"absent.{absence.field}", absence.reason) for absence in device.absent)
    yield "partitions", list(device.partitions)
    for clock in device.clocks:
        if clock.hertz is not None:
            yield f"clocks.{clock.domain}", clock.hertz
        if clock.max_hertz is not None:
            yield f"clocks.{clock.domain}.max", clock.max_hertz
    for count in device.ecc:
        span = "lifetime" if count.lifetime else "volatile"
        block = f".{count.block}" if count.block else ""
        yield f"ecc.{count.severity}.{span}{block}", count.count
