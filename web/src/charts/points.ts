// Points of a chart: times that grow, and for each series a value or a gap.

export type Values = readonly (number | null)[];

export interface Points {
  times: readonly number[]; // seconds since the epoch, each later than the one before
  fields: Readonly<Record<string, Values>>; // of the length of `times`
}

// As the API gives a past: a start, and a value for every step.
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

const STILL_NOW_SECONDS = 150; // the past comes by the minute, and a minute is known when it is over

// What it is now. What was known long before the end is not it.
export function latest(times: readonly number[], values: Values): number | null {
  const end = times.at(-1) ?? 0;
  for (let place = values.length - 1; place >= 0; place -= 1) {
    if (end - (times[place] ?? 0) > STILL_NOW_SECONDS) return null;
    const value = values[place] ?? null;
    if (value !== null) return value;
  }
  return null;
}

// Places of values between two gaps: no line goes through them, so that they need a dot.
export function alone(values: Values): number[] {
  const found: number[] = [];
  for (const [place, value] of values.entries()) {
    if (value === null) continue;
    if ((values[place - 1] ?? null) === null && (values[place + 1] ?? null) === null) found.push(place);
  }
  return found;
}

// The stretch of time that is drawn. A past that is younger than the span is not squeezed into its end.
export function stretch(
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

// When the past begins, where that is later than the span asks for. first: place of the first that is known.
export function youngerThan(
  spanSeconds: number | null,
  times: readonly number[],
  first: number,
): number | null {
  const begin = times[first];
  const end = times.at(-1);
  if (spanSeconds === null || begin === undefined || end === undefined) return null;
  return end - begin < spanSeconds - A_FEW_STEPS ? begin : null;
}
