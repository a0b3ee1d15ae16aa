// Severity of a temperature, relative to the device's slowdown temperature. Same limits as the health and the alerts.

const HOT_MARGIN_CELSIUS = 5;
const HOT_CELSIUS = 90; // if the device reports no slowdown temperature

// API parameters for hot devices: near their own limit, and those without a reported limit.
export const HOT = {
  temperature_margin_celsius_max: String(HOT_MARGIN_CELSIUS),
  sort: "temperature_margin_celsius",
};
export const HOT_WITHOUT_LIMIT = {
  absent: "temperature_margin_celsius",
  temperature_celsius_min: String(HOT_CELSIUS),
  sort: "-temperature_celsius",
};

type Maybe = number | null | undefined;

export function heatTone(at: Maybe, slowdown: Maybe): "plain" | "warning" | "critical" {
  if (at === null || at === undefined) return "plain";
  if (!slowdown) return at >= HOT_CELSIUS ? "warning" : "plain";
  if (at >= slowdown) return "critical";
  return at >= slowdown - HOT_MARGIN_CELSIUS ? "warning" : "plain";
}
