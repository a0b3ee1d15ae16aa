// What the colour of a device tells.
import { celsius, duration, percent, watts } from "../app/units";
import { type Fleet, numberOf } from "./fleet";

export const MODES = ["use", "memory", "temperature", "power", "health", "age"] as const;
export type Mode = (typeof MODES)[number];

export interface Meaning {
  title: string;
  fields: readonly string[]; // columns beside those that every mode has
  scale: "scale" | "heat" | null; // tokens of its colours; null: one colour for each health
  low: number; // where the scale begins and ends
  high: number;
  value: (fleet: Fleet, row: number) => number | null;
  written: (value: number | null) => string;
  of?: string; // after the number, where it is not beside the title
  marks: readonly number[]; // written below the scale
}

export const MEANINGS: Readonly<Record<Mode, Meaning>> = {
  use: {
    title: "Use",
    fields: ["utilization_ratio"],
    scale: "scale",
    low: 0,
    high: 1,
    value: (fleet, row) => numberOf(fleet, "utilization_ratio", row),
    written: percent,
    marks: [0, 0.5, 1],
  },
  memory: {
    title: "Memory",
    fields: ["memory_used_bytes", "memory_total_bytes"],
    scale: "scale",
    low: 0,
    high: 1,
    value: (fleet, row) => quotient(fleet, "memory_used_bytes", "memory_total_bytes", row),
    written: percent,
    marks: [0, 0.5, 1],
  },
  temperature: {
    title: "Temperature",
    fields: ["temperature_celsius"],
    scale: "heat",
    low: 25,
    high: 95,
    value: (fleet, row) => numberOf(fleet, "temperature_celsius", row),
    written: celsius,
    marks: [25, 60, 95],
  },
  power: {
    title: "Power",
    fields: ["power_watts", "power_limit_watts"],
    scale: "heat",
    low: 0,
    high: 1,
    value: (fleet, row) => quotient(fleet, "power_watts", "power_limit_watts", row),
    written: percent,
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
    written: () => "",
    marks: [],
  },
  age: {
    title: "Age",
    fields: ["age_seconds"],
    scale: "scale",
    low: 0,
    high: 120,
    value: (fleet, row) => numberOf(fleet, "age_seconds", row),
    written: duration,
    marks: [0, 60, 120],
  },
};

// Ratios of a limit for people, with the number itself where there is one.
export function told(mode: Mode, fleet: Fleet, row: number): string {
  const meaning = MEANINGS[mode];
  if (mode === "power") {
    const ratio = meaning.value(fleet, row);
    const drawn = watts(numberOf(fleet, "power_watts", row));
    return ratio === null ? drawn : `${drawn}, ${percent(ratio)} of limit`;
  }
  return meaning.written(meaning.value(fleet, row));
}

export function isMode(text: string | null): text is Mode {
  return (MODES as readonly string[]).includes(text ?? "");
}

// Whether a fleet that was asked for has what a mode shows.
export function has(fleet: Fleet, mode: Mode): boolean {
  return MEANINGS[mode].fields.every((name) => name in fleet.numbers);
}

function quotient(fleet: Fleet, part: string, whole: string, row: number): number | null {
  const above = numberOf(fleet, part, row);
  const below = numberOf(fleet, whole, row);
  return above === null || below === null || below <= 0 ? null : above / below;
}
