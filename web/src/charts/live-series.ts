// Readings received since the page was opened. The history of the API has one point per minute only.
import type { Points, Steps } from "./points";

const CAPACITY = 720; // two hours at a reading every ten seconds
const LONGEST_SILENCE_SECONDS = 120; // no line is drawn across a longer gap

type Point = { at: number; values: Readonly<Record<string, number | null>> };

export class LiveSeries {
  private points: Point[] = [];

  constructor(private readonly capacity = CAPACITY) {}

  // Returns false for a reading that is not newer than the last one.
  push(at: number, values: Readonly<Record<string, number | null>>): boolean {
    const last = this.points.at(-1);
    if (last && at <= last.at) return false;
    this.points.push({ at, values });
    if (this.points.length > this.capacity) this.points.splice(0, this.points.length - this.capacity);
    return true;
  }

  get length(): number {
    return this.points.length;
  }

  // Merges with the history. Points of the history near a received reading are left out.
  merge(past: Steps | null, fields: readonly string[]): Points {
    const near = past?.step_seconds ?? 0;
    const earlier = minutes(past, fields).filter(
      ({ at }) => !this.points.some((point) => Math.abs(point.at - at) < near),
    );
    return withGaps(
      [...earlier, ...this.points].sort((a, b) => a.at - b.at),
      fields,
      near,
    );
  }
}

function minutes(past: Steps | null, fields: readonly string[]): Point[] {
  if (past === null) return [];
  const length = Math.max(0, ...Object.values(past.fields).map((values) => values.length));
  return Array.from({ length }, (_, place) => ({
    at: past.start + place * past.step_seconds,
    values: Object.fromEntries(fields.map((name) => [name, past.fields[name]?.[place] ?? null])),
  }));
}

function withGaps(points: readonly Point[], fields: readonly string[], step: number): Points {
  const silence = Math.max(LONGEST_SILENCE_SECONDS, step * 2);
  const times: number[] = [];
  const columns: Record<string, (number | null)[]> = Object.fromEntries(fields.map((name) => [name, []]));
  const first = points.findIndex((point) => fields.some((name) => (point.values[name] ?? null) !== null));
  let before: number | null = null;
  for (const point of first < 0 ? [] : points.slice(first)) {
    if (before !== null && point.at - before > silence) {
      times.push((before + point.at) / 2);
      for (const name of fields) columns[name]?.push(null);
    }
    times.push(point.at);
    for (const name of fields) columns[name]?.push(point.values[name] ?? null);
    before = point.at;
  }
  return { times, fields: columns };
}
