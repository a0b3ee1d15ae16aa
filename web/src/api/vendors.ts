// Reasons for a lower clock that slow no work down, in the words of `HARMLESS_THROTTLES` of the model.
const HARMLESS = new Set([
  "gpu_idle",
  "applications_clocks_setting",
  "display_clock_setting",
  "sync_boost",
  "low_utilization",
  "total_gfx_clk_below_host_limit",
  "idle",
]);

// Those by which heat or the power supply forces a device, in the words of `FAULT_THROTTLES` of the model.
export const FAULTS = [
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
] as const;

export function isHarmless(reason: string): boolean {
  return HARMLESS.has(reason);
}
