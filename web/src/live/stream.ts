// The live stream of the fleet, shared by the whole page. Views listen for changes and fetch their data again.
import { signal } from "@preact/signals";
import { headers, problemFrom, token, tokenRequired } from "../api/client";
import type { Event as FleetEvent, SummaryRow } from "../api/types";
import { recordFleetTime } from "./fleet-clock";
import { MessageReader } from "./sse";

export interface Change {
  generation: number;
  clusters: readonly string[];
  nodes: readonly (readonly [cluster: string, node: string])[] | null; // null: too many to list
}

export type Connection = "connecting" | "live" | "lost";

export const connection = signal<Connection>("connecting");
export const lastMessageAt = signal<number | null>(null); // time of the last message, milliseconds since the epoch
export const summary = signal<SummaryRow | null>(null);
export const recentEvents = signal<readonly FleetEvent[]>([]); // newest first, since the page was opened
export const shownEvents = signal<readonly FleetEvent[]>([]); // events that arrived while not paused
export const paused = signal(false); // the user paused updates

const MAX_EVENTS = 200;
const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 15_000;
const SILENCE_MS = 45_000; // the fleet sends a message every 15 s
const MAX_LATENCY_MS = 5_000; // assumed maximum delay of a message

type Listener = (change: Change | "all") => void;
const listeners = new Set<Listener>();

// `all`: changes were missed or the stream was reconnected; fetch everything again.
export function onChange(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function notify(change: Change | "all"): void {
  if (!paused.value) for (const listener of [...listeners]) listener(change);
}

export function resume(): void {
  paused.value = false;
  shownEvents.value = recentEvents.value;
  notify("all");
}

// Runs until aborted and reconnects.
export async function runStream(abort: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  let lastId = "";
  let before = false;
  while (!abort.aborted) {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    abort.addEventListener("abort", end);
    const unsubscribe = onTokenChange(end);
    let timer = setTimeout(end, SILENCE_MS);
    const sent = token.value;
    try {
      const answer = await fetch("/api/v1/stream", {
        headers: { ...headers(), ...(lastId ? { "Last-Event-ID": lastId } : {}) },
        signal: attempt.signal,
      });
      if (!answer.ok || !answer.body) throw await problemFrom(answer, sent);
      const reader = new MessageReader();
      const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      connection.value = "live";
      wait = FIRST_WAIT_MS;
      if (before) notify("all");
      before = true;
      for (;;) {
        const { done, value } = await text.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(end, SILENCE_MS);
        lastMessageAt.value = Date.now();
        for (const message of reader.take(value)) {
          lastId = message.id || lastId;
          handleMessage(message.event, message.data);
        }
      }
    } catch {
      // reported by `connection`, and by the responses to other requests
    } finally {
      clearTimeout(timer);
      unsubscribe();
      abort.removeEventListener("abort", end);
      attempt.abort();
    }
    if (abort.aborted) return;
    connection.value = "lost";
    await (tokenRequired.value ? waitForToken() : waitForTokenOr(wait));
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
}

// Waits until the user enters a token.
async function waitForToken(): Promise<void> {
  let unsubscribe = () => {};
  await new Promise<void>((done) => {
    unsubscribe = tokenRequired.subscribe((wanted) => {
      if (!wanted) done();
    });
  });
  unsubscribe();
}

// Waits for the given time, or until the user enters a token.
async function waitForTokenOr(milliseconds: number): Promise<void> {
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

function handleMessage(event: string, data: string): void {
  if (event === "resync") {
    notify("all");
    return;
  }
  const content = JSON.parse(data);
  if (event === "hello" || event === "change") recordFleetTime(content.at, Date.now() - MAX_LATENCY_MS);
  if (event === "hello") {
    if (!paused.value || summary.value === null) summary.value = content.summary;
  } else if (event === "change") {
    if (!paused.value) summary.value = content.summary;
    notify(content);
  } else if (event === "event") {
    recentEvents.value = [content as FleetEvent, ...recentEvents.value].slice(0, MAX_EVENTS);
    if (!paused.value) shownEvents.value = recentEvents.value;
  }
}
