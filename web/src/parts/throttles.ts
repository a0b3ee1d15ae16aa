// Reasons for a lower clock that slow no work down, in the words of `HARMLESS_THROTTLES` of the model.
const HARMLESS = new Set([
  "gpu_idle",
  "idle",
  "applications_clocks_setting",
  "display_clock_setting",
  "sync_boost",
]);

export function isHarmless(reason: string): boolean {
  return HARMLESS.has(reason);
}
