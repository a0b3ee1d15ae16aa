"""Tables of the file `gpu_metrics`, laid out by ctypes as a C compiler lays out the kernel's structures."""

import ctypes
from collections.abc import Sequence
from ctypes import c_uint8, c_uint16, c_uint32, c_uint64
from functools import cache
from typing import Any

_U8, _U16, _U32, _U64 = c_uint8, c_uint16, c_uint32, c_uint64
Version = tuple[int, int]
Fields = list[tuple[str, Any]]


def _all(kind: Any, *names: str) -> Fields:
    return [(name, kind) for name in names]


_DGPU_HEAT = _all(
    _U16,
    "temperature_edge",
    "temperature_hotspot",
    "temperature_mem",
    "temperature_vrgfx",
    "temperature_vrsoc",
    "temperature_vrmem",
    "average_gfx_activity",
    "average_umc_activity",
    "average_mm_activity",
    "average_socket_power",
)
_DGPU_CLOCKS = _all(
    _U16,
    *("average_gfxclk", "average_socclk", "average_uclk", "average_vclk0", "average_dclk0"),
    *("average_vclk1", "average_dclk1"),
    *("current_gfxclk", "current_socclk", "current_uclk", "current_vclk0", "current_dclk0"),
    *("current_vclk1", "current_dclk1"),
)
_THROTTLE_AND_FAN = [("throttle_status", _U32), ("current_fan_speed", _U16)]
_CLOCK = [("system_clock_counter", _U64)]
_V1_1 = [
    *_DGPU_HEAT,
    ("energy_accumulator", _U64),
    *_CLOCK,
    *_DGPU_CLOCKS,
    *_THROTTLE_AND_FAN,
    *_all(_U16, "pcie_link_width", "pcie_link_speed", "padding"),
    *_all(_U32, "gfx_activity_acc", "mem_activity_acc"),
    ("temperature_hbm", _U16 * 4),
]
_V1_2 = [*_V1_1, ("firmware_timestamp", _U64)]
_SERVER_HEAT = _all(
    _U16,
    "temperature_hotspot",
    "temperature_mem",
    "temperature_vrsoc",
    "curr_socket_power",
    "average_gfx_activity",
    "average_umc_activity",
)
_ENERGY = [("energy_accumulator", _U64), *_CLOCK]
_RESIDENCIES = _all(
    _U32,
    "accumulation_counter",
    "prochot_residency_acc",
    "ppt_residency_acc",
    "socket_thm_residency_acc",
    "vr_thm_residency_acc",
    "hbm_thm_residency_acc",
)
_LINK = [
    ("gfxclk_lock_status", _U32),
    *_all(_U16, "pcie_link_width", "pcie_link_speed", "xgmi_link_width", "xgmi_link_speed"),
    *_all(_U32, "gfx_activity_acc", "mem_activity_acc"),
    *_all(_U64, "pcie_bandwidth_acc", "pcie_bandwidth_inst", "pcie_l0_to_recov_count_acc"),
    *_all(_U64, "pcie_replay_count_acc", "pcie_replay_rover_count_acc"),
]
_NAKS = _all(_U32, "pcie_nak_sent_count_acc", "pcie_nak_rcvd_count_acc")
_TRAFFIC = [("xgmi_read_data_acc", _U64 * 8), ("xgmi_write_data_acc", _U64 * 8)]
_LINK_STATES = [("xgmi_link_status", _U16 * 8), ("padding", _U16)]
_SERVER_CLOCKS = [
    ("firmware_timestamp", _U64),
    ("current_gfxclk", _U16 * 8),
    *_all(_U16 * 4, "current_socclk", "current_vclk0", "current_dclk0"),
    *_all(_U16, "current_uclk", "num_partition"),
]
_APU_HEAT = [
    *_all(_U16, "temperature_gfx", "temperature_soc"),
    ("temperature_core", _U16 * 8),
    ("temperature_l3", _U16 * 2),
    *_all(_U16, "average_gfx_activity", "average_mm_activity"),
]
_APU_REST = [
    *_all(_U16, "average_socket_power", "average_cpu_power", "average_soc_power", "average_gfx_power"),
    ("average_core_power", _U16 * 8),
    ("average_clocks", _U16 * 6),
    *_all(_U16, "current_gfxclk", "current_socclk", "current_uclk", "current_fclk", "current_vclk"),
    ("current_dclk", _U16),
    ("current_coreclk", _U16 * 8),
    ("current_l3clk", _U16 * 2),
    ("throttle_status", _U32),
    ("fan_pwm", _U16),
]
_V2_1 = [*_APU_HEAT, *_CLOCK, *_APU_REST, ("padding", _U16 * 3)]
_V2_2 = [*_V2_1, ("indep_throttle_status", _U64)]
_V2_3 = [*_V2_2, ("average_temperatures", _U16 * 12)]


class _Partition(ctypes.Structure):
    _fields_ = [
        ("gfx_busy_inst", _U32 * 8),
        ("jpeg_busy", _U16 * 32),
        ("vcn_busy", _U16 * 4),
        ("gfx_busy_acc", _U64 * 8),
    ]


class _Partition11(ctypes.Structure):
    _fields_ = [*_Partition._fields_, ("gfx_below_host_limit_acc", _U64 * 8)]


class _Partition12(ctypes.Structure):
    _fields_ = [
        ("gfx_busy_inst", _U32 * 8),
        ("jpeg_busy", _U16 * 40),
        ("vcn_busy", _U16 * 4),
        ("gfx_busy_acc", _U64 * 8),
        ("gfx_below_host_limit_ppt_acc", _U64 * 8),
        ("gfx_below_host_limit_thm_acc", _U64 * 8),
        ("gfx_low_utilization_acc", _U64 * 8),
        ("gfx_below_host_limit_total_acc", _U64 * 8),
    ]


def _partitions(kind: Any) -> Fields:
    return [("xcp_stats", kind * 8), ("pcie_lc_perf_other_end_recovery", _U32)]


FIELDS: dict[Version, Fields] = {
    (1, 0): [
        *_CLOCK,
        *_DGPU_HEAT,
        ("energy_accumulator", _U32),
        *_DGPU_CLOCKS,
        *_THROTTLE_AND_FAN,
        *_all(_U8, "pcie_link_width", "pcie_link_speed"),
    ],
    (1, 1): _V1_1,
    (1, 2): _V1_2,
    (1, 3): [
        *_V1_2,
        *_all(_U16, "voltage_soc", "voltage_gfx", "voltage_mem", "padding1"),
        ("indep_throttle_status", _U64),
    ],
    (1, 4): [
        *_SERVER_HEAT,
        ("vcn_activity", _U16 * 4),
        *_ENERGY,
        ("throttle_status", _U32),
        *_LINK,
        *_TRAFFIC,
        *_SERVER_CLOCKS,
    ],
    (1, 5): [
        *_SERVER_HEAT,
        ("vcn_activity", _U16 * 4),
        ("jpeg_activity", _U16 * 32),
        *_ENERGY,
        ("throttle_status", _U32),
        *_LINK,
        *_NAKS,
        *_TRAFFIC,
        *_SERVER_CLOCKS,
    ],
    (1, 6): [
        *_SERVER_HEAT,
        *_ENERGY,
        *_RESIDENCIES,
        *_LINK,
        *_NAKS,
        *_TRAFFIC,
        *_SERVER_CLOCKS,
        *_partitions(_Partition),
    ],
    (1, 7): [
        *_SERVER_HEAT,
        ("mem_max_bandwidth", _U64),
        *_ENERGY,
        *_RESIDENCIES,
        *_LINK,
        *_NAKS,
        *_TRAFFIC,
        *_LINK_STATES,
        *_SERVER_CLOCKS,
        *_partitions(_Partition11),
    ],
    (1, 8): [
        *_SERVER_HEAT,
        ("mem_max_bandwidth", _U64),
        *_ENERGY,
        *_RESIDENCIES,
        *_LINK,
        *_NAKS,
        *_TRAFFIC,
        *_LINK_STATES,
        *_SERVER_CLOCKS,
        *_partitions(_Partition12),
    ],
    (2, 0): [*_CLOCK, *_APU_HEAT, *_APU_REST, ("padding", _U16)],
    (2, 1): _V2_1,
    (2, 2): _V2_2,
    (2, 3): _V2_3,
    (2, 4): [*_V2_3, ("average_voltages_and_currents", _U16 * 6)],
    (3, 0): [
        *_all(_U16, "temperature_gfx", "temperature_soc"),
        ("temperature_core", _U16 * 16),
        *_all(_U16, "temperature_skin", "average_gfx_activity", "average_vcn_activity"),
        ("average_ipu_activity", _U16 * 8),
        ("average_core_c0_activity", _U16 * 16),
        ("average_dram_and_ipu_traffic", _U16 * 4),
        *_CLOCK,
        ("average_socket_power", _U32),
        ("average_ipu_power", _U16),
        ("average_powers", _U32 * 4),
        ("average_core_power", _U16 * 16),
        *_all(_U16, "average_sys_power", "stapm_power_limit", "current_stapm_power_limit"),
        *_all(_U16, "average_gfxclk", "average_socclk", "average_vpeclk", "average_ipuclk"),
        *_all(_U16, "average_fclk", "average_vclk", "average_uclk", "average_mpipu"),
        ("current_coreclk", _U16 * 16),
        *_all(_U16, "current_core_maxfreq", "current_gfx_maxfreq"),
        ("throttle_residencies", _U32 * 7),
        ("time_filter_alphavalue", _U32),
    ],
}
VERSIONS = tuple(FIELDS)
WITH_ENERGY = tuple(version for version in VERSIONS if (1, 1) <= version <= (1, 8))


@cache
def _structure(version: Version) -> Any:
    header = [("structure_size", _U16), ("format_revision", _U8), ("content_revision", _U8)]
    return type("Table", (ctypes.Structure,), {"_fields_": [*header, *FIELDS[version]]})


def table(version: Version, **values: Any) -> bytes:
    """A table of which only these values were measured: the driver fills it with ones first. Of an array, the
    first elements. `parts` is a list with the values of each partition."""
    parts: Sequence[dict[str, Any]] = values.pop("parts", ())
    made = _structure(version)()
    ctypes.memset(ctypes.byref(made), 0xFF, ctypes.sizeof(made))
    made.structure_size = ctypes.sizeof(made)
    made.format_revision, made.content_revision = version
    if parts:
        made.num_partition = len(parts)
    _fill(made, values)
    for place, part in zip(getattr(made, "xcp_stats", ()), parts, strict=False):
        _fill(place, part)
    return bytes(made)


def _fill(made: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        if isinstance(value, Sequence):
            for number, one in enumerate(value):
                getattr(made, name)[number] = one
        else:
            assert hasattr(made, name)
            setattr(made, name, value)


def parse(data: bytes) -> Any:
    """The table in the file, as its version lays it out."""
    made = _structure((data[2], data[3])).from_buffer_copy(data)
    assert made.structure_size == len(data) == ctypes.sizeof(made)
    return made
