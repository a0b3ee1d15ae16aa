// The live stream of the fleet: one for the whole page. Views listen for changes and ask anew for what they show.
import { signal } from "@preact/signals";
import { headers, refused, token, tokenWanted } from "../api/client";
import type { Event as FleetEvent, SummaryRow } from "../api/types";
import { heardAtFleet } from "./fleet-clock";
import { MessageReader } from "./sse";

export interface Change {
  generation: number;
  clusters: readonly string[];
  nodes: readonly (readonly [cluster: string, node: string])[] | null; // null: more than are named
}

export type Connection = "connecting" | "live" | "lost";

export const connection = signal<Connection>("connecting");
export const heardAt = signal<number | null>(null); // milliseconds since the epoch, of the last message
export const summary = signal<SummaryRow | null>(null);
export const recentEvents = signal<readonly FleetEvent[]>([]); // newest first, of this visit
export const shownEvents = signal<readonly FleetEvent[]>([]); // those of them that came while nobody wanted peace
export const paused = signal(false); // the reader wants to look in peace: nothing on the page moves

const EVENTS_KEPT = 200;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15_000;
const SILENCE_MS = 45_000; // the fleet says something every 15 s
const UNDERWAY_MS = 5_000; // a message that took longer does not tell the time

type Listener = (change: Change | "all") => void;
const listeners = new Set<Listener>();

// `all`: something was missed, or the stream is back: ask for everything anew.
export function onChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(change: Change | "all"): void {
  if (!paused.value) for (const listener of [...listeners]) listener(change);
}

export function resume(): void {
  paused.value = false;
  shownEvents.value = recentEvents.value;
  tell("all");
}

// Runs until aborted; comes back by itself.
export async function follow(abort: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  let lastId = "";
  let before = false;
  while (!abort.aborted) {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    abort.addEventListener("abort", end);
    const unsubscribe = onTokenChange(end);
    let timer = setTimeout(end, SILENCE_MS);
    const shown = token.value;
    try {
      const answer = await fetch("/api/v1/stream", {
        headers: { ...headers(), ...(lastId ? { "Last-Event-ID": lastId } : {}) },
        signal: attempt.signal,
      });
      if (!answer.ok || !answer.body) throw await refused(answer, shown);
      const reader = new MessageReader();
      const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      connection.value = "live";
      wait = FIRST_WAIT_MS;
      if (before) tell("all");
      before = true;
      for (;;) {
        const { done, value } = await text.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(end, SILENCE_MS);
        heardAt.value = Date.now();
        for (const message of reader.take(value)) {
          lastId = message.id || lastId;
          take(message.event, message.data);
        }
      }
    } catch {
      // what went wrong shows in `connection`, and in the answer to any other question
    } finally {
      clearTimeout(timer);
      unsubscribe();
      abort.removeEventListener("abort", end);
      attempt.abort();
    }
    if (abort.aborted) return;
    connection.value = "lost";
    await (tokenWanted.value ? anotherToken() : anotherTokenOr(wait));
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

// A fleet that asks for a token is not asked again without one.
async function anotherToken(): Promise<void> {
  let unsubscribe = () => {};
  await new Promise<void>((done) => {
    unsubscribe = tokenWanted.subscribe((wanted) => {
      if (!wanted) done();
    });
  });
  unsubscribe();
}

// Whoever gives a token after a refusal is not kept waiting.
async function anotherTokenOr(milliseconds: number): Promise<void> {
  let unsubscribe = () => {};
  await new Promise<void>((done) => {
    const timer = setTimeout(done, milliseconds);
    unsubscribe = onTokenChange(() => {
      clearTimeout(timer);
      done();
    });
  });
  unsubscribe();
}

function onTokenChange(end: () => void): () => void {
  let first = true;
  return token.subscribe(() => {
    if (!first) end();
    first = false;
  });
}

function take(event: string, data: string): void {
  if (event === "resync") {
    tell("all");
    return;
  }
  const content = JSON.parse(data);
  if (event === "hello" || event === "change") heardAtFleet(content.at, Date.now() - UNDERWAY_MS);
  if (event === "hello") {
    if (!paused.value || summary.value === null) summary.value = content.summary;
  } else if (event === "change") {
    if (!paused.value) summary.value = content.summary;
    tell(content);
  } else if (event === "event") {
    recentEvents.value = [content as FleetEvent, ...recentEvents.value].slice(0, EVENTS_KEPT);
    if (!paused.value) shownEvents.value = recentEvents.value;
  }
}
