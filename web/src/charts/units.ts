// Units of charts and their formats.
import { bytes, celsius, clock, count, percent, watts } from "../app/units";

export type Unit = "ratio" | "bytes" | "watts" | "celsius" | "count";

const FORMATTERS: Record<Unit, (value: number | null | undefined) => string> = {
  ratio: percent,
  bytes,
  watts,
  celsius,
  count: (value) => count(value === null || value === undefined ? value : Math.round(value * 10) / 10),
};

export function formatValue(unit: Unit, value: number | null | undefined): string {
  return FORMATTERS[unit](value);
}

// Possible distances between grid lines, round in the displayed unit: powers of two for bytes.
export function increments(unit: Unit): number[] {
  const found: number[] = [];
  if (unit === "ratio") return [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10];
  if (unit === "bytes") {
    for (let power = 0; power <= 70; power += 1) found.push(2 ** power);
    return found;
  }
  for (let power = 0; power <= 12; power += 1) for (const step of [1, 2, 5]) found.push(step * 10 ** power);
  return found;
}

const HALF_A_DAY = 12 * 3600;

// Time of day, with the date if the span is longer than half a day.
export function moment(secondsSinceEpoch: number, spanSeconds: number): string {
  const day = spanSeconds > HALF_A_DAY ? `${timeMark(secondsSinceEpoch, 86400)} ` : "";
  return day + clock(secondsSinceEpoch);
}

// Label of a time axis by the distance between labels: 12:03:10, 12:03, 16 Nov.
export function timeMark(secondsSinceEpoch: number, distanceSeconds: number): string {
  const date = new Date(secondsSinceEpoch * 1000);
  if (distanceSeconds >= 86400) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const options: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };
  if (distanceSeconds < 60) options.second = "2-digit";
  return date.toLocaleTimeString("en-GB", options);
}
