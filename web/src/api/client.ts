// Questions to the fleet's API. What is refused is a Problem (RFC 9457); nothing is ever answered in its place.
import { batch, signal } from "@preact/signals";
import { readStorage, writeStorage } from "../app/storage";
import { recordFleetTime } from "../live/fleet-clock";

export type Parameters = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export class Problem extends Error {
  constructor(
    readonly status: number, // 0: no answer at all
    readonly title: string,
    readonly detail: string,
    readonly retryAfterSeconds: number | null = null,
    readonly parameter: string | null = null, // that was refused
  ) {
    super(detail || title);
  }
}

// Whatever went wrong, as a Problem.
export function toProblem(error: unknown, title = "Unreadable response"): Problem {
  return error instanceof Problem ? error : new Problem(0, title, String(error));
}

const STORAGE_KEY = "accelscope.token";

// A fleet beyond loopback asks for a token. It is kept for this tab only, and sent nowhere but to the fleet.
export const token = signal(readStorage("sessionStorage", STORAGE_KEY));
export const tokenRequired = signal(false); // the last answer was a 401

export function setToken(given: string | null): void {
  writeStorage("sessionStorage", STORAGE_KEY, given);
  batch(() => {
    token.value = given;
    tokenRequired.value = false;
  });
}

export function query(parameters: Parameters): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === "") continue;
    if (Array.isArray(value)) for (const one of value) search.append(name, one);
    else search.append(name, String(value));
  }
  const text = search.toString();
  return text ? `?${text}` : "";
}

// A part of a path, as the API's routes have them: ids hold colons and slashes are told apart.
export function path(...parts: string[]): string {
  return parts.map(encodeURIComponent).join("/");
}

export function headers(): HeadersInit {
  return token.value === null ? {} : { Authorization: `Bearer ${token.value}` };
}

const TIMEOUT_MS = 20_000;
const POST_TIMEOUT_MS = 60_000; // a POST has the fleet read a cluster before it answers

export async function get<T>(url: string, parameters: Parameters = {}, abort?: AbortSignal): Promise<T> {
  return ask<T>("GET", url + query(parameters), TIMEOUT_MS, abort);
}

export async function post<T>(url: string): Promise<T> {
  return ask<T>("POST", url, POST_TIMEOUT_MS);
}

async function ask<T>(method: string, url: string, patience: number, abort?: AbortSignal): Promise<T> {
  const late = AbortSignal.timeout(patience);
  const asked = Date.now();
  const shown = token.value;
  try {
    const answer = await fetch(url, {
      method,
      headers: headers(),
      signal: abort ? AbortSignal.any([abort, late]) : late,
    });
    if (!answer.ok) throw await problemFrom(answer, shown);
    const content = await answer.json();
    recordFleetTime(content?.at, asked);
    return content as T;
  } catch (error) {
    if (error instanceof Problem || error instanceof SyntaxError || abort?.aborted) throw error;
    throw late.aborted
      ? new Problem(
          0,
          "The fleet did not respond in time",
          `No response within ${patience / 1000} s. The fleet is overloaded, or a proxy delays its responses.`,
        )
      : new Problem(
          0,
          "The fleet does not respond",
          "Check that `accelscope fleet` is running and that the network is up.",
        );
  }
}

// shown: the token that was refused. Another one may have been given since.
export async function problemFrom(answer: Response, shown: string | null): Promise<Problem> {
  if (answer.status === 401 && shown === token.value) tokenRequired.value = true;
  const after = Number(answer.headers.get("Retry-After"));
  let title = answer.statusText || `HTTP ${answer.status}`;
  let detail = "";
  let parameter: string | null = null;
  try {
    const document = (await answer.json()) as { title?: string; detail?: string; parameter?: string };
    title = document.title ?? title;
    detail = document.detail ?? "";
    parameter = document.parameter ?? null;
  } catch {
    // no problem document: a proxy in between answered
  }
  return new Problem(
    answer.status,
    title,
    detail,
    Number.isFinite(after) && after > 0 ? after : null,
    parameter,
  );
}
