"""Every capture of AMD's tools and files, with the values that a person read from the file.

Of ids that belong to other people's machines only the beginning is written down here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest

from accelscope.model import Device, Process
from accelscope.parsing import sources
from accelscope.vendors.amd.reader import AmdReader
from accelscope.vendors.common.contract import Paths, ReaderOptions

MIB = 2**20
GIB = 2**30
NONE = object()  # the file has neither a value nor an absence


@dataclass(frozen=True)
class Expected:
    source: str
    devices: Sequence[dict[str, object]] = ()
    processes: Sequence[dict[str, object]] = ()
    error: str | None = None
    rejected: Sequence[str] = field(default=())


def rocm(*devices: dict[str, object], processes: Sequence[dict[str, object]] = ()) -> Expected:
    return Expected("rocm-smi-json", devices, processes)


def metric(*devices: dict[str, object]) -> Expected:
    return Expected("amd-smi-metric", devices)


def static(*devices: dict[str, object]) -> Expected:
    return Expected("amd-smi-static", devices)


def monitor(*devices: dict[str, object], processes: Sequence[dict[str, object]] = ()) -> Expected:
    return Expected("amd-smi-monitor", devices, processes)


def table(*devices: dict[str, object]) -> Expected:
    return Expected("rocm-smi-table", devices)


def concise(
    index: int,
    code: str,
    edge: float,
    watts: float,
    megahertz: tuple[int, int],
    fan: float,
    cap: float,
    use: float,
    fill: float,
) -> dict[str, object]:
    return {
        "index": index,
        "id": f"amd:unidentified-{index}",
        "pci_device_id": code,
        **heat(edge),
        "power_watts": watts,
        "power_limit_watts": cap,
        **clocks(graphics=megahertz[0], memory=megahertz[1]),
        "fans.0.ratio": fan,
        "utilization_ratio": use,
        "memory_used_ratio": fill,
        "memory_used_bytes": NONE,
        "memory_utilization_ratio": NONE,
        **absent("compute_partition", "memory_partition"),
    }


def heat(
    edge: float | None = None, junction: float | None = None, memory: float | None = None
) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, celsius in (("edge", edge), ("junction", junction), ("memory", memory)):
        values[f"sensors.{name}"] = NONE if celsius is None else celsius
    values["temperature_celsius"] = edge if edge is not None else junction
    return values


def clocks(**megahertz: float) -> dict[str, object]:
    return {f"clocks.{domain}": mhz * 1e6 for domain, mhz in megahertz.items()}


def link(generation: int, width: int, replays: int) -> dict[str, object]:
    return {"pcie.generation": generation, "pcie.width": width, "pcie.replays_total": replays}


def absent(*places: str, reason: str = "not_supported") -> dict[str, object]:
    return {f"absent.{place}": reason for place in places}


def hbm(*celsius: float) -> dict[str, object]:
    return {f"sensors.hbm{number}": value for number, value in enumerate(celsius)}


def mi100(
    index: int, uuid: str, bus: str, heats: tuple[float, float, float], watts: float, millivolts: int
) -> dict[str, object]:
    return {
        "index": index,
        "uuid": uuid,
        "pci_address": f"0000:{bus}:00.0",
        "model": "Arcturus GL-XL [Instinct MI100]",
        "firmware_version": "113-D3431401-101",
        "driver_version": "6.3.6",
        "numa_node": 1,
        "utilization_ratio": 0.0,
        "memory_utilization_ratio": 0.0,
        "memory_total_bytes": 34342961152,
        "memory_used_bytes": 6750208,
        "memory_free_bytes": NONE,
        **heat(*heats),
        "power_watts": watts,
        "power_limit_watts": 290.0,
        "rails.gfx": millivolts / 1000,
        **clocks(graphics=300, memory=1200, fabric=1402, soc=1000),
        **link(4, 16, 0),
        "fans.0.ratio": NONE,
        "energy_joules": NONE,
        **absent("serial"),
    }


def rx6700xt(used: int, millivolts: int, **values: object) -> dict[str, object]:
    return {
        "index": 0,
        "id": "amd:0000:07:00.0",
        "pci_address": "0000:07:00.0",
        "firmware_version": "113-67XA6SSB1-D01",
        "driver_version": "6.3.6",
        "numa_node": 0,
        "utilization_ratio": 0.0,
        "memory_utilization_ratio": 0.0,
        "memory_total_bytes": 12868124672,
        "memory_used_bytes": used,
        **heat(45.0, 47.0, 46.0),
        "power_watts": 6.0,
        "power_limit_watts": 211.0,
        "rails.gfx": millivolts / 1000,
        **clocks(graphics=500, memory=96, fabric=1051, soc=685, display=480),
        **link(4, 16, 0),
        **absent("uuid", "serial"),
        **values,
    }


def mi250(index: int, use: float, **values: object) -> dict[str, object]:
    return {
        "index": index,
        "model": "AMD INSTINCT MI250 (MCM) OAM AC MBA",
        "firmware_version": "113-D65209-073",
        "driver_version": "6.2.4",
        "utilization_ratio": use,
        "memory_utilization_ratio": 0.0,
        "memory_total_bytes": NONE,
        "rails.gfx": 0.818,
        **clocks(graphics=800, memory=1600, fabric=400, soc=1090),
        "clocks.graphics.max": 1.7e9,
        "clocks.memory.max": 1.6e9,
        **values,
    }


MI250_ROCM5 = {
    "uuid": "0x719d2305",
    "serial": "PCB052715",
    "pci_address": "0000:2f:00.0",
    **heat(32.0, 35.0, 43.0),
    **hbm(43.0, 39.0, 42.0, 43.0),
    "pcie.replays_total": 147,
    "pcie.generation": NONE,
}
NO_THROTTLES = {
    f"throttles.{reason}": False
    for reason in ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
}
IDLE_MI300X = {
    "utilization_ratio": 0.0,
    "memory_utilization_ratio": 0.0,
    "decoder_utilization_ratio": 0.0,
    "jpeg_utilization_ratio": 0.0,
    "power_watts": NONE,
    **{f"cores.{number}": 0.0 for number in range(8)},
    "cores.8": NONE,
}


def cpx(index: int, watts: float, junction: float, memory: float) -> dict[str, object]:
    """A partition of an MI300X: the table does not tell to which socket it belongs."""
    return {
        "index": index,
        "power_watts": watts,
        **heat(None, junction, memory),
        "memory_used_bytes": 283 * MIB,
        "memory_total_bytes": 196300 * MIB,
        "utilization_ratio": NONE,
    }


CPX_WATTS = (
    *(248, 247, 247, 247, 221, 221, 222, 221, 239, 239, 239, 239, 219, 219, 219, 219),
    *(222, 222, 222, 222, 241, 241, 241, 240, 211, 211, 211, 211, 227, 227, 227, 227),
)
CPX_JUNCTION = [55] * 4 + [50] * 4 + [53] * 4 + [51] * 4 + [51] * 4 + [55] * 4 + [51] * 4 + [51] * 4
CPX_MEMORY = (
    [48] * 4 + [42] * 4 + [46] * 4 + [48] * 4 + [47, 47, 47, 48] + [48] * 4 + [45] * 4 + [49] * 4
)  # fmt: skip

CAPTURES: dict[str, Expected] = {
    "amd-smi_metric-power_navi_text.txt": metric(
        {
            "index": 0,
            "power_watts": 11.0,
            "rails.gfx": 0.768,
            "rails.soc": 0.925,
            "rails.mem": 1.25,
            "throttles.any": False,
            "utilization_ratio": NONE,
        },
        {
            "index": 1,
            "power_watts": 17.0,
            "rails.gfx": 0.781,
            "rails.soc": 0.806,
            "rails.mem": 1.25,
            "throttles.any": False,
        },
    ),
    "amd-smi_metric-throttle_mi300x_text.txt": metric(
        {"index": 0, **NO_THROTTLES, "power_watts": NONE}, {"index": 1, **NO_THROTTLES}
    ),
    "amd-smi_metric-u_w7700_rocm63.json": metric(
        {
            "index": 0,
            "utilization_ratio": 0.42,
            "memory_utilization_ratio": 0.01,
            "decoder_utilization_ratio": 0.0,
            "encoder_utilization_ratio": NONE,
            "jpeg_utilization_ratio": NONE,
            "power_watts": NONE,
        }
    ),
    "amd-smi_metric-usage_mi300x_text.txt": metric({"index": 0, **IDLE_MI300X}, {"index": 1, **IDLE_MI300X}),
    "amd-smi_metric_mi300x_rocm702.json": metric(
        {
            "index": 0,
            "utilization_ratio": 0.0,
            "memory_utilization_ratio": 0.0,
            "power_watts": 158.0,
            **heat(None, 45.0, 38.0),
            "memory_used_bytes": NONE,
            **absent("rails", "sensors.edge"),
        }
    ),
    "amd-smi_metric_text_navi_rocm63.txt": metric(
        {
            "index": 0,
            "utilization_ratio": 0.0,
            "memory_utilization_ratio": 0.01,
            "decoder_utilization_ratio": NONE,
            "jpeg_utilization_ratio": NONE,
            "power_watts": 20.0,
            "rails.gfx": 0.78,
            "rails.soc": 0.699,
            "rails.mem": 0.666,
            "throttles.any": False,
            "clocks.graphics": 14e6,
            "clocks.graphics.max": 2.482e9,
        }
    ),
    "amd-smi_metric_watch_apu_rocm72.txt": metric(
        {
            "index": 0,
            **absent("utilization_ratio", "memory_utilization_ratio", "power_watts", "rails", "throttles"),
        }
    ),
    "amd-smi_monitor-q_rvs.txt": monitor(
        {
            "index": 0,
            "power_watts": 199.0,
            **heat(None, 103.0, 84.0),
            "utilization_ratio": 0.99,
            "memory_utilization_ratio": 0.31,
            **clocks(graphics=1920, memory=1000, video=0, data=0),
            "ecc.corrected": 0,
            "ecc.uncorrected": 0,
            "pcie.replays_total": 0,
            "memory_used_bytes": 1235 * MIB,
            "memory_total_bytes": 16335 * MIB,
            **absent("encoder_utilization_ratio", "decoder_utilization_ratio"),
        },
        processes=[
            {"pid": 1564865, "device_index": 0, "name": "rvs", "memory_bytes": 0},
        ],
    ),
    "amd-smi_monitor_mi300x_cpx.txt": monitor(
        *(cpx(n, CPX_WATTS[n], CPX_JUNCTION[n], CPX_MEMORY[n]) for n in range(32))
    ),
    "amd-smi_monitor_mi300xvf_rocm64.txt": monitor(
        {
            "index": 0,
            "power_watts": 293.0,
            **heat(None, 49.0, 43.0),
            **clocks(graphics=2106),
            "utilization_ratio": 0.96,
            "memory_utilization_ratio": 0.0,
            "decoder_utilization_ratio": 0.0,
            "memory_used_bytes": round(3.1 * GIB),
            "memory_total_bytes": round(191.7 * GIB),
            **absent("encoder_utilization_ratio"),
        },
        processes=[
            {"pid": 2266127, "device_index": 0, "name": NONE, "memory_bytes": 0},
        ],
    ),
    "amd-smi_process_text_nosudo.txt": Expected(
        "amd-smi-process",
        processes=[
            {
                "pid": 1693982,
                "device_index": 0,
                "name": NONE,
                "memory_bytes": 0,
                "utilization_ratio": NONE,
            }
        ],
    ),
    "amd-smi_static_mi210_rocm7.json": static(
        {
            "index": 0,
            "id": "amd:unidentified-0",
            "model": "AMD Instinct MI210",
            "architecture": "gfx90a",
            "driver_version": "6.14.0-24-generic",
            "firmware_version": NONE,
            "numa_node": 1,
            "ecc_enabled": True,
            "memory_total_bytes": 65520 * MIB,
            "power_limit_watts": 300.0,
            "power_limit_max_watts": 300.0,
            "power_limit_min_watts": 0.0,
            "temperature_slowdown_celsius": 99.0,
            "temperature_shutdown_celsius": 99.0,
            "pcie.max_generation": 4,
            "pcie.max_width": 16,
            "pcie.generation": NONE,
            **clocks(graphics=800, memory=1600, fabric=400, soc=1090, video=1000, data=875),
            "clocks.graphics.max": 1.7e9,
            "clocks.memory.max": 1.6e9,
            "clocks.soc.max": 1.333e9,
            "clocks.display": NONE,
            **absent("serial"),
        }
    ),
    "amd-smi_static_mi300x_short.json": static(
        {
            "index": 0,
            "uuid": "0x6f1f0a2b",
            "pci_address": "0000:83:00.0",
            "model": "AMD Instinct MI300X",
            "architecture": "gfx942",
            "driver_version": "6.19.14",
            "memory_total_bytes": 206141652992,
        }
    ),
    "rocm-smi_csv_860m_warning.csv": Expected(
        "rocm-smi-csv",
        [
            {
                "index": 0,
                "model": "AMD Radeon 860M Graphics",
                "architecture": "gfx1152",
                "memory_total_bytes": 4294967296,
                "memory_used_bytes": 4095787008,
                "utilization_ratio": NONE,
                "power_watts": NONE,
            }
        ],
    ),
    "rocm-smi_err_old-unable.txt": Expected("rocm-smi-json", error="driver_error"),
    "rocm-smi_showhw_mi300a_tpx.txt": table(
        *(
            {
                "index": number,
                "id": f"amd:000{number // 3}:01:00.0" + (f"/{number % 3}" if number % 3 else ""),
                "pci_address": f"000{number // 3}:01:00.0",
                "pci_device_id": "0x74a0",
                "architecture": "gfx942",
                "ecc_enabled": True,
                **absent("firmware_version"),
            }
            for number in range(12)
        )
    ),
    "rocm-smi_table_navi21_rocm611.txt": table(
        concise(0, "0x73bf", 43.0, 6.0, (0, 96), 0.0, 150.0, 0.0, 0.03),
        concise(1, "0x73a3", 34.0, 8.0, (0, 96), 0.2, 213.0, 0.0, 0.0),
    ),
    "rocm-smi_table_rx7800xt_rx580_rocm720.txt": table(
        concise(0, "0x747e", 49.0, 64.0, (1372, 456), 0.0, 236.0, 0.29, 0.95),
        concise(1, "0x67df", 58.0, 92.165, (1365, 2000), 0.3373, 145.0, 1.0, 0.83),
    ),
    "rocm-smi_table_w7900x8_warning.txt": table(
        *(
            concise(number, "0x744b", celsius, watts, (0, 96), 0.2, 241.0, 0.0, 0.0)
            for number, (celsius, watts) in enumerate(
                (
                    *((49.0, 70.0), (32.0, 19.0), (24.0, 12.0), (25.0, 12.0)),
                    *((29.0, 17.0), (25.0, 12.0), (28.0, 14.0), (32.0, 15.0)),
                )
            )
        )
    ),
    "rocm-smi_memuse_rx6800x2.json": rocm(
        {"index": 0, "memory_utilization_ratio": 0.0, "memory_used_bytes": NONE},
        {"index": 1, "memory_utilization_ratio": 0.0, "memory_used_bytes": NONE},
    ),
    "rocm-smi_mi100_rocm602.json": rocm(
        mi100(0, "0x79ccd551", "83", (53.0, 55.0, 53.0), 36.0, 662),
        mi100(1, "0x4edfb117", "a3", (55.0, 58.0, 54.0), 44.0, 668),
        mi100(2, "0xd4a9ec48", "c3", (54.0, 57.0, 55.0), 43.0, 668),
        mi100(3, "0x1b9dd972", "e3", (51.0, 53.0, 50.0), 39.0, 662),
    ),
    "rocm-smi_mi250_rocm5.json": rocm(
        mi250(
            0, 0.1, **MI250_ROCM5, power_watts=89.0, power_limit_watts=560.0, energy_joules=962825096.297443
        ),
        mi250(
            1,
            0.2,
            **MI250_ROCM5,
            **absent("power_watts", "power_limit_watts", "energy_joules", reason="shared"),
        ),
    ),
    "rocm-smi_mi250_rocm6.json": rocm(
        mi250(
            0,
            0.0,
            uuid="0x1f9de095",
            serial="PCB052715",
            pci_address="0000:29:00.0",
            architecture="gfx9010",
            **heat(43.0, 44.0, 53.0),
            **hbm(53.0, 50.0, 52.0, 52.0),
            power_watts=91.0,
            power_limit_watts=560.0,
            energy_joules=4275228873.299218,
            **link(1, 8, 3824),
        )
    ),
    "rocm-smi_mi350x_pids.json": rocm(
        {
            "index": 0,
            "architecture": "gfx950",
            "driver_version": "6.14.14",
            "utilization_ratio": 0.99,
            "memory_total_bytes": 308902100992,
            "memory_used_bytes": 200804560896,
            **heat(None, 60.0, None),
            "power_watts": 266.0,
            "fans.0.ratio": 0.42,
            "fans.0.rpm": 3200.0,
            **clocks(graphics=173, memory=2000),
            **absent("model", reason="not_known"),
        },
        processes=[
            {
                "pid": 710898,
                "name": "sglang::schedul",
                "type": "compute",
                "memory_bytes": 200145596416,
                "utilization_ratio": NONE,
                "device": NONE,
                "device_index": NONE,
            },
            {"pid": 721888, "name": "python3", "memory_bytes": 0, "utilization_ratio": NONE},
        ],
    ),
    "rocm-smi_rx6700xt_rocm430.json": rocm(
        rx6700xt(
            1622728704,
            6,
            **absent("model", reason="not_known"),
            **absent("sensors.hbm0", "sensors.hbm3"),
        )
    ),
    "rocm-smi_rx6700xt_rocm571.json": rocm(
        rx6700xt(1564491776, 862, model="Navi 22 [Radeon RX 6700/6700 XT / 6800M]")
    ),
    "rocm-smi_rx6700xt_rocm612.json": rocm(
        rx6700xt(
            1572745216,
            6,
            model="Navi 22 [Radeon RX 6700/6700 XT / 6800M]",
            architecture="gfx1031",
            **clocks(graphics=0),
        )
    ),
    "rocm-smi_rx7800xt_rocm624.json": rocm(
        {
            "index": 0,
            "uuid": "0x5c88007d",
            "model": "Navi 32 [Radeon RX 7700 XT / 7800 XT]",
            "architecture": "gfx11001",
            "utilization_ratio": 1.0,
            "memory_utilization_ratio": NONE,
            "memory_total_bytes": 17163091968,
            "memory_used_bytes": 11615076352,
            **heat(45.0, 51.0, 54.0),
            "power_watts": 53.0,
            "power_limit_watts": NONE,
            "driver_version": NONE,
            **absent("serial"),
        }
    ),
    "rocm-smi_rx9060xt_rocm7.json": rocm(
        {
            "index": 0,
            "id": "amd:unidentified-0",
            "utilization_ratio": 1.0,
            "memory_total_bytes": 17095983104,
            "memory_used_bytes": 9518669824,
            **heat(39.0, 41.0, 61.0),
            "power_watts": 17.0,
            "power_limit_watts": 175.0,
        }
    ),
    "rocm-smi_vega-10-XT.json": rocm(
        {
            "index": 0,
            "uuid": "0x2150e7d0",
            "pci_address": "0000:04:00.0",
            "firmware_version": "113-D0510100-106",
            "driver_version": "5.9.25",
            "numa_node": 0,
            "utilization_ratio": 0.0,
            "memory_utilization_ratio": NONE,
            "memory_total_bytes": 17163091968,
            "memory_used_bytes": 17776640,
            **heat(39.0, 40.0, 92.0),
            "power_watts": 15.0,
            "power_limit_watts": 170.0,
            "rails.gfx": 0.906,
            "fans.0.ratio": 0.13,
            "fans.0.rpm": 682.0,
            **clocks(graphics=1269, memory=167, soc=960, display=600),
            **link(3, 16, 0),
            **absent("serial"),
            **absent("model", reason="not_known"),
        }
    ),
    "rocm-smi_vega-20-WKS-GL-XE.json": rocm(
        {
            "index": 0,
            "uuid": "0x2f048617",
            "serial": "6920",
            "pci_address": "0000:63:00.0",
            "model": "Radeon Instinct MI50 32GB",
            "firmware_version": "113-D1631700-111",
            "driver_version": "5.9.17",
            "utilization_ratio": 0.0,
            "memory_utilization_ratio": 0.0,
            "memory_total_bytes": 34342961152,
            "memory_used_bytes": 10850304,
            **heat(36.0, 38.0, 35.0),
            "power_watts": 26.0,
            "power_limit_watts": 225.0,
            "rails.gfx": 1.0,
            "fans.0.ratio": 0.0,
            "fans.0.rpm": 0.0,
            **clocks(graphics=1725, memory=1000, fabric=1080, soc=971, display=357),
            **link(4, 16, 0),
        }
    ),
}

TREES = {
    "sysfs_vega10_and_i915.txt": {
        "index": 0,
        "id": "amd:0x123456789abcdef",
        "uuid": "0x1234567",
        "pci_address": "0000:09:00.0",
        "firmware_version": "115-D050PIL-100",
        "driver_version": NONE,
        "numa_node": NONE,
        "utilization_ratio": 0.04,
        "memory_total_bytes": 8573157376,
        "memory_used_bytes": 1490378752,
        "memory_free_bytes": 8573157376 - 1490378752,
        "pcie.generation": 3,
        "pcie.max_generation": 3,
        "pcie.width": 16,
        "pcie.max_width": 16,
        "pcie.replays_total": 0,
        **clocks(graphics=852, memory=167, soc=720),
        "clocks.graphics.max": 1.63e9,
        "clocks.memory.max": 945e6,
        "serial": NONE,
        "power_limit_watts": NONE,
        "health": "ok",
        **absent("memory_utilization_ratio", "temperature_celsius", "power_watts"),
        **absent("model", reason="not_known"),
    }
}

OTHER_KINDS = {
    "amd-smi_list-e_mi325xvf.txt": "ids only: amd-smi static has them beside the rest",
    "amd-smi_partition_mi325x.txt": "profiles that could be chosen, no reading",
    "amd-smi_table_r9700x2_rocm72.txt": "table for eyes",
}
AMD_SOURCES = [name for name in sources() if name.startswith(("amd-smi", "rocm-smi"))]


def test_every_capture_has_expected_values(captures: Path) -> None:
    found = {path.name for path in (captures / "amd").iterdir()}
    assert found == CAPTURES.keys() | TREES.keys() | OTHER_KINDS.keys()


@pytest.mark.parametrize("name", CAPTURES)
def test_capture_is_parsed_to_the_expected_values(captures: Path, name: str) -> None:
    expected = CAPTURES[name]
    text = (captures / "amd" / name).read_text(encoding="utf-8")
    parsed = sources()[expected.source].parse(text, None)

    assert (parsed.error and parsed.error.reason) == expected.error
    assert [rejection.reason for rejection in parsed.rejected] == list(expected.rejected)
    assert len(parsed.devices) == len(expected.devices)
    for device, values in zip(parsed.devices, expected.devices, strict=True):
        assert_values(device_facts(device), values)
    assert len({device.id for device in parsed.devices}) == len(parsed.devices)
    assert [process.pid for process in parsed.processes] == [values["pid"] for values in expected.processes]
    for found, values in zip(parsed.processes, expected.processes, strict=True):
        assert_values(process_facts(found), values)


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: "WARNING: User is missing the following required groups: render.\n\n" + text,
    ],
    ids=["mark", "carriage returns", "no newline", "warning before"],
)
def test_text_around_a_capture_does_not_change_the_result(captures: Path, name: str, change: Any) -> None:
    text = (captures / "amd" / name).read_text(encoding="utf-8")
    parse = sources()[CAPTURES[name].source].parse
    read, changed = parse(text, None), parse(change(text), None)
    assert changed.devices == read.devices
    assert changed.processes == read.processes
    assert (changed.error and changed.error.reason) == (read.error and read.error.reason)


@pytest.mark.parametrize("name", TREES)
def test_captured_sysfs_tree_is_read_to_the_expected_values(
    captures: Path, tmp_path: Path, name: str
) -> None:
    lay_out(captures / "amd" / name, tmp_path)
    paths = Paths(
        proc=tmp_path / "proc",
        sys=tmp_path / "sys",
        dev=tmp_path / "dev",
    )
    tools = dict.fromkeys(("amd_smi_path", "rocm_smi_path"), str(tmp_path / "no-tool"))
    reader = AmdReader(ReaderOptions(paths, tools))
    [key] = reader.survey().keys
    assert_values(device_facts(reader.read(key).device), TREES[name])


@pytest.mark.parametrize("source", AMD_SOURCES)
@pytest.mark.parametrize("name", OTHER_KINDS)
def test_a_capture_of_another_format_gives_no_values(captures: Path, source: str, name: str) -> None:
    text = (captures / "amd" / name).read_text(encoding="utf-8")
    parsed = sources()[source].parse(text, None)
    assert parsed.devices == ()
    assert parsed.processes == ()
    assert parsed.error is not None


def lay_out(flat: Path, root: Path) -> None:
    """A tree from its flattened form: `=== path`, then the content, `->` for a link."""
    for block in flat.read_text(encoding="utf-8", errors="replace").split("=== ")[1:]:
        name, _, content = block.partition("\n")
        path = root / name.strip().lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content.startswith("-> "):
            path.symlink_to(content[3:].strip())
        else:
            path.write_text(content)


def assert_values(facts: dict[str, Any], expected: dict[str, Any]) -> None:
    wrong = {}
    for place, value in expected.items():
        found = facts.get(place, NONE)
        if place in ("uuid", "serial") and isinstance(value, str):
            right = str(found).startswith(value)
        elif isinstance(value, float):
            right = isinstance(found, int | float) and found == pytest.approx(value, rel=1e-12, abs=1e-12)
        else:
            right = found is NONE if value is NONE else found is not NONE and found == value
        if not right:
            wrong[place] = {"expected": "nothing" if value is NONE else value, "found": found}
        if place.startswith("absent."):
            missing = place.removeprefix("absent.")
            there = [f for f in facts if f == missing or ("." not in missing and f.startswith(f"{missing}."))]
            assert not there, f"{missing} has a value"
    assert not wrong


def process_facts(process: Process) -> dict[str, Any]:
    values = {f.name: getattr(process, f.name) for f in fields(process)}
    return {name: value for name, value in values.items() if value is not None and value != ()}


def device_facts(device: Device) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for f in fields(device):
        value = getattr(device, f.name)
        if value is not None and not isinstance(value, tuple) and f.name not in ("pcie", "remapped_rows"):
            facts[f.name] = value.state if f.name == "health" else value
    if device.pcie is not None:
        for f in fields(device.pcie):
            if getattr(device.pcie, f.name) is not None:
                facts[f"pcie.{f.name}"] = getattr(device.pcie, f.name)
    facts.update((f"sensors.{sensor.name}", sensor.celsius) for sensor in device.sensors)
    facts.update((f"rails.{rail.name}", rail.volts) for rail in device.rails)
    facts.update((f"throttles.{throttle.reason}", throttle.active) for throttle in device.throttles)
    facts.update((f"absent.{absence.field}", absence.reason) for absence in device.absent)
    facts.update((f"cores.{core.index}", core.utilization_ratio) for core in device.cores)
    for fan in device.fans:
        facts.update({f"fans.{fan.index}.ratio": fan.speed_ratio, f"fans.{fan.index}.rpm": fan.speed_rpm})
    for clock in device.clocks:
        facts.update({f"clocks.{clock.domain}": clock.hertz, f"clocks.{clock.domain}.max": clock.max_hertz})
    for count in device.ecc:
        facts[f"ecc.{count.severity}" + (f".{count.block}" if count.block else "")] = count.count
    return {place: value for place, value in facts.items() if value is not None}
