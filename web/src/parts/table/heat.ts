// How grave a temperature is, by that at which the device slows itself down. Where that is not known, nothing is said.

const NEAR_SLOWDOWN = 5; // degrees

type Maybe = number | null | undefined;

export function heatOf(at: Maybe, slowdown: Maybe): "plain" | "warning" | "critical" {
  if (at === null || at === undefined || slowdown === null || slowdown === undefined) return "plain";
  if (at >= slowdown) return "critical";
  return at >= slowdown - NEAR_SLOWDOWN ? "warning" : "plain";
}
