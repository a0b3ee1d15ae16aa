// How grave a temperature is, by that at which the device slows itself down, as the model and the alerts have it.

const HOT_MARGIN_CELSIUS = 5;
const HOT_CELSIUS = 90; // where the device does not tell at which it slows down

// Devices that are hot, as the API is asked for them, the gravest first: by their own limit, and those that tell none.
export const HOT = {
  temperature_margin_celsius_max: String(HOT_MARGIN_CELSIUS),
  sort: "temperature_margin_celsius",
};
export const HOT_UNTOLD = {
  absent: "temperature_margin_celsius",
  temperature_celsius_min: String(HOT_CELSIUS),
  sort: "-temperature_celsius",
};

type Maybe = number | null | undefined;

export function heatOf(at: Maybe, slowdown: Maybe): "plain" | "warning" | "critical" {
  if (at === null || at === undefined) return "plain";
  if (!slowdown) return at >= HOT_CELSIUS ? "warning" : "plain";
  if (at >= slowdown) return "critical";
  return at >= slowdown - HOT_MARGIN_CELSIUS ? "warning" : "plain";
}
