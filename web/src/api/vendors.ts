// Made from src/accelscope/vendors by `make docs`. Do not edit.

export const VENDOR_TITLES: Record<string, string> = {
  "nvidia": "NVIDIA",
  "amd": "AMD",
  "ascend": "Ascend",
  "furiosa": "Furiosa",
};

/** Throttle reasons that do not slow down any work. */
export const HARMLESS_THROTTLES: readonly string[] = [
  "gpu_idle",
  "applications_clocks_setting",
  "display_clock_setting",
  "sync_boost",
  "low_utilization",
  "total_gfx_clk_below_host_limit",
  "idle",
];

/** Throttle reasons caused by heat or by the power supply. */
export const FAULT_THROTTLES: readonly string[] = [
  "hw_slowdown",
  "hw_thermal_slowdown",
  "sw_thermal_slowdown",
  "hw_power_brake_slowdown",
  "prochot",
  "socket_thermal",
  "vr_thermal",
  "hbm_thermal",
  "gfx_clk_below_host_limit_thermal",
  "thermal_slowdown",
  "hw_power_cap",
];
