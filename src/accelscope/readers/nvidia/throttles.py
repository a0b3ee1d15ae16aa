"""Why clocks are held back: one bit for each reason, as NVML numbers them."""

# Those that nvidia-smi has names for, too.
THROTTLE_BITS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
NVML_THROTTLE_BITS = {**THROTTLE_BITS, 0x200: "board_limit", 0x400: "reliability"}
