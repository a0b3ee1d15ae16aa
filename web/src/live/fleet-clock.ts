// The fleet's clock, as far as its answers tell. The reader's may be wrong by hours; what is shown is dated by the fleet's.
import { computed, signal } from "@preact/signals";

// To be added to the reader's clock, milliseconds. null: nothing was heard yet.
const offset = signal<number | null>(null);

export const clockKnown = computed(() => offset.value !== null);

// An answer was dated somewhere between the question and its arrival: the offset lies between two bounds, and stays what
// it was while it is within them. So a clock that is right stays untouched, and a slow answer moves nothing.
export function narrowed(before: number, at: number, asked: number, arrived: number): number {
  const least = at * 1000 - arrived;
  const most = at * 1000 - asked;
  return Math.min(Math.max(before, least), Math.max(least, most));
}

// at: as the fleet says it, seconds since the epoch. asked and arrived: by the reader's clock, milliseconds.
export function heardAtFleet(at: unknown, asked: number, arrived = Date.now()): void {
  if (typeof at === "number" && Number.isFinite(at))
    offset.value = narrowed(offset.value ?? 0, at, asked, arrived);
}

// A moment of the reader's clock, by the fleet's. Both in milliseconds.
export function byFleet(milliseconds: number): number {
  return milliseconds + (offset.value ?? 0);
}

export function fleetNow(): number {
  return byFleet(Date.now());
}
