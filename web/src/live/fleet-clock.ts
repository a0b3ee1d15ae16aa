// The fleet's clock, estimated from its responses. The browser's clock may be wrong by hours.
import { computed, signal } from "@preact/signals";

// Milliseconds to add to the browser's clock. null: no response yet.
const offset = signal<number | null>(null);

export const clockKnown = computed(() => offset.value !== null);

// A response is dated between the request and its arrival, which bounds the offset. An offset within the bounds is kept,
// so that a correct clock is not changed and slow responses have no effect.
export function clampOffset(before: number, at: number, sentAt: number, arrived: number): number {
  const least = at * 1000 - arrived;
  const most = at * 1000 - sentAt;
  return Math.min(Math.max(before, least), Math.max(least, most));
}

// at: the fleet's time in seconds since the epoch. sentAt, arrived: milliseconds of the browser's clock.
export function recordFleetTime(at: unknown, sentAt: number, arrived = Date.now()): void {
  if (typeof at === "number" && Number.isFinite(at))
    offset.value = clampOffset(offset.value ?? 0, at, sentAt, arrived);
}

// Converts a time of the browser's clock to the fleet's clock, in milliseconds.
export function toFleetTime(milliseconds: number): number {
  return milliseconds + (offset.value ?? 0);
}

export function fleetNow(): number {
  return toFleetTime(Date.now());
}
