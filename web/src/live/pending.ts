// Tracks changes that the stream announced and that the page has not fetched yet.
import { computed, signal } from "@preact/signals";

const open = signal<ReadonlyMap<object, number>>(new Map());

// Time of the oldest pending change, in milliseconds of the browser's clock. null: none is pending.
export const pendingSince = computed(() => (open.value.size === 0 ? null : Math.min(...open.value.values())));

// request: identifies the request that must be repeated.
export function markPending(request: object, since = Date.now()): void {
  if (!open.value.has(request)) open.value = new Map(open.value).set(request, since);
}

export function clearPending(request: object): void {
  markResponded(request, true);
  if (!open.value.has(request)) return;
  const rest = new Map(open.value);
  rest.delete(request);
  open.value = rest;
}

const unanswered = signal<ReadonlySet<object>>(new Set());

// Whether the last attempt of any request got no response, so that its data may be stale.
export const hasFailedRequests = computed(() => unanswered.value.size > 0);

export function markResponded(request: object, answered: boolean): void {
  if (unanswered.value.has(request) !== answered) return;
  const rest = new Set(unanswered.value);
  if (answered) rest.delete(request);
  else rest.add(request);
  unanswered.value = rest;
}

export const DELAYED_AFTER_MS = 30_000;

export function isDelayed(since: number | null, now: number): since is number {
  return since !== null && now - since > DELAYED_AFTER_MS;
}
