// Points of a chart: ascending times, and a value or null for each series.

export type Values = readonly (number | null)[];

export interface Points {
  times: readonly number[]; // seconds since the epoch, ascending
  fields: Readonly<Record<string, Values>>; // same length as `times`
}

// History as returned by the API: a start, and a value for each step.
export interface Steps {
  start: number;
  step_seconds: number;
  fields: Readonly<Record<string, Values>>;
}

export function timesOf(start: number, step: number, length: number): number[] {
  return Array.from({ length }, (_, place) => start + place * step);
}

export interface Extremes {
  least: number | null;
  most: number | null;
}

export function extremes(values: Values): Extremes {
  let least: number | null = null;
  let most: number | null = null;
  for (const value of values) {
    if (value === null) continue;
    if (least === null || value < least) least = value;
    if (most === null || value > most) most = value;
  }
  return { least, most };
}

const STILL_NOW_SECONDS = 150; // a minute of history is available when it is over

// The current value; null if the last known value is too old.
export function latest(times: readonly number[], values: Values): number | null {
  const end = times.at(-1) ?? 0;
  for (let place = values.length - 1; place >= 0; place -= 1) {
    if (end - (times[place] ?? 0) > STILL_NOW_SECONDS) return null;
    const value = values[place] ?? null;
    if (value !== null) return value;
  }
  return null;
}

// Indexes of values between two gaps, which need a dot because no line goes through them.
export function isolatedPoints(values: Values): number[] {
  const found: number[] = [];
  for (const [place, value] of values.entries()) {
    if (value === null) continue;
    if ((values[place - 1] ?? null) === null && (values[place + 1] ?? null) === null) found.push(place);
  }
  return found;
}

// The drawn time range. A history shorter than the span fills the width.
export function timeRange(
  times: readonly number[],
  spanSeconds: number | null,
  leastSeconds = 300,
): [number, number] {
  const end = times.at(-1);
  const begin = times[0];
  if (end === undefined || begin === undefined) return [0, 1];
  const from = spanSeconds === null ? begin : Math.max(begin, end - spanSeconds);
  return [Math.min(from, end - leastSeconds), end];
}

const A_FEW_STEPS = 180; // seconds

// Start of a history that is shorter than the span; else null. first: index of the first known value.
export function historyStart(
  spanSeconds: number | null,
  times: readonly number[],
  first: number,
): number | null {
  const begin = times[first];
  const end = times.at(-1);
  if (spanSeconds === null || begin === undefined || end === undefined) return null;
  return end - begin < spanSeconds - A_FEW_STEPS ? begin : null;
}
