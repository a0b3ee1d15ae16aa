// Which changes were told and are not shown yet. A page whose stream is live and whose questions hang is not live.
import { computed, signal } from "@preact/signals";

const open = signal<ReadonlyMap<object, number>>(new Map());

// Since when the page lacks something that it was told of; milliseconds of the reader's clock. null: it lacks nothing.
export const behindSince = computed(() => (open.value.size === 0 ? null : Math.min(...open.value.values())));

// who: the question that has to be asked anew.
export function lacks(who: object, since = Date.now()): void {
  if (!open.value.has(who)) open.value = new Map(open.value).set(who, since);
}

export function lacksNothing(who: object): void {
  tellAnswered(who, true);
  if (!open.value.has(who)) return;
  const rest = new Map(open.value);
  rest.delete(who);
  open.value = rest;
}

const unanswered = signal<ReadonlySet<object>>(new Set());

// Whether a question that was asked last got no answer at all: what it would show is old, however little has changed.
export const someUnanswered = computed(() => unanswered.value.size > 0);

export function tellAnswered(who: object, answered: boolean): void {
  if (unanswered.value.has(who) !== answered) return;
  const rest = new Set(unanswered.value);
  if (answered) rest.delete(who);
  else rest.add(who);
  unanswered.value = rest;
}

export const BEHIND_MS = 30_000; // less is nobody's concern

export function isBehind(since: number | null, now: number): since is number {
  return since !== null && now - since > BEHIND_MS;
}
