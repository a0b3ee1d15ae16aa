// Colour modes of the map.
import { celsius, duration, percent, watts } from "../app/units";
import { type Fleet, numberOf } from "./fleet";

export const MODES = ["use", "memory", "temperature", "power", "health", "age"] as const;
export type Mode = (typeof MODES)[number];

export interface ModeInfo {
  title: string;
  fields: readonly string[]; // columns in addition to those of every mode
  scale: "scale" | "heat" | null; // colour tokens; null: one colour per health
  low: number; // bounds of the scale
  high: number;
  value: (fleet: Fleet, row: number) => number | null;
  format: (value: number | null) => string;
  of?: string; // suffix of the number
  marks: readonly number[]; // labels below the scale
}

export const MODE_INFO: Readonly<Record<Mode, ModeInfo>> = {
  use: {
    title: "Use",
    fields: ["utilization_ratio"],
    scale: "scale",
    low: 0,
    high: 1,
    value: (fleet, row) => numberOf(fleet, "utilization_ratio", row),
    format: percent,
    marks: [0, 0.5, 1],
  },
  memory: {
    title: "Memory",
    fields: ["memory_used_bytes", "memory_total_bytes"],
    scale: "scale",
    low: 0,
    high: 1,
    value: (fleet, row) => quotient(fleet, "memory_used_bytes", "memory_total_bytes", row),
    format: percent,
    marks: [0, 0.5, 1],
  },
  temperature: {
    title: "Temperature",
    fields: ["temperature_celsius"],
    scale: "heat",
    low: 25,
    high: 95,
    value: (fleet, row) => numberOf(fleet, "temperature_celsius", row),
    format: celsius,
    marks: [25, 60, 95],
  },
  power: {
    title: "Power",
    fields: ["power_watts", "power_limit_watts"],
    scale: "heat",
    low: 0,
    high: 1,
    value: (fleet, row) => quotient(fleet, "power_watts", "power_limit_watts", row),
    format: percent,
    of: " of limit",
    marks: [0, 0.5, 1],
  },
  health: {
    title: "Health",
    fields: [],
    scale: null,
    low: 0,
    high: 1,
    value: () => null,
    format: () => "",
    marks: [],
  },
  age: {
    title: "Age",
    fields: ["age_seconds"],
    scale: "scale",
    low: 0,
    high: 120,
    value: (fleet, row) => numberOf(fleet, "age_seconds", row),
    format: duration,
    marks: [0, 60, 120],
  },
};

// The value of a device as text; for power with the share of the limit.
export function formatDeviceValue(mode: Mode, fleet: Fleet, row: number): string {
  const meaning = MODE_INFO[mode];
  if (mode === "power") {
    const ratio = meaning.value(fleet, row);
    const drawn = watts(numberOf(fleet, "power_watts", row));
    return ratio === null ? drawn : `${drawn}, ${percent(ratio)} of limit`;
  }
  return meaning.format(meaning.value(fleet, row));
}

export function isMode(text: string | null): text is Mode {
  return (MODES as readonly string[]).includes(text ?? "");
}

// Whether the fetched data contains the fields of a mode.
export function hasMode(fleet: Fleet, mode: Mode): boolean {
  return MODE_INFO[mode].fields.every((name) => name in fleet.numbers);
}

function quotient(fleet: Fleet, part: string, whole: string, row: number): number | null {
  const above = numberOf(fleet, part, row);
  const below = numberOf(fleet, whole, row);
  return above === null || below === null || below <= 0 ? null : above / below;
}
