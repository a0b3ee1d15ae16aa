"""The model's lists of reasons to slow down are made of words that readers have."""

import json

from accelscope.model import FAULT_THROTTLES, HARMLESS_THROTTLES
from accelscope.vendors.amd import parse_amd_smi
from accelscope.vendors.amd.gpu_metrics import THROTTLE_BITS as AMD_BITS
from accelscope.vendors.furiosa.sysfs import THROTTLE_BITS
from accelscope.vendors.nvidia.gpu import NVML_THROTTLE_BITS

# As amd-smi names them, without what follows each: _violation_status.
AMD = (
    "prochot",
    "ppt",
    "socket_thermal",
    "vr_thermal",
    "hbm_thermal",
    "gfx_clk_below_host_limit",
    "gfx_clk_below_host_limit_power",
    "gfx_clk_below_host_limit_thermal",
    "total_gfx_clk_below_host_limit",
    "low_utilization",
)
# Limits that somebody set or that belong to usual life, and reasons that speak of neither heat nor power.
NEITHER = {
    *("sw_power_cap", "board_limit", "reliability"),
    *("ppt", "tdc", "gfx_clk_below_host_limit", "gfx_clk_below_host_limit_power"),
    *("app_power_cap", "app_clock_cap", "hw_clock_cap", "hw_bus_limit", "gov_clock_cap", "other_reason"),
}


def test_every_reason_of_every_reader_is_a_fault_or_harmless_or_neither() -> None:
    told = {f"{name}_violation_status": "ACTIVE" for name in AMD}
    [gpu] = parse_amd_smi.parse_metric(json.dumps([{"gpu": 0, "throttle": told}])).devices
    amd = {throttle.reason for throttle in gpu.throttles}
    known = {*NVML_THROTTLE_BITS.values(), *THROTTLE_BITS.values(), *amd, *AMD_BITS}
    assert known == FAULT_THROTTLES | HARMLESS_THROTTLES | NEITHER
    assert not FAULT_THROTTLES & (HARMLESS_THROTTLES | NEITHER)
