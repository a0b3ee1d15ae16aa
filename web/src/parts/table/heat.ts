// How grave a temperature is, by that at which the device slows itself down, as the model and the alerts have it.

const HOT_MARGIN_CELSIUS = 5;
export const HOT_CELSIUS = 90; // where the device does not tell at which it slows down

type Maybe = number | null | undefined;

export function heatOf(at: Maybe, slowdown: Maybe): "plain" | "warning" | "critical" {
  if (at === null || at === undefined) return "plain";
  if (!slowdown) return at >= HOT_CELSIUS ? "warning" : "plain";
  if (at >= slowdown) return "critical";
  return at >= slowdown - HOT_MARGIN_CELSIUS ? "warning" : "plain";
}
