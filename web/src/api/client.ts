// HTTP client of the fleet's API. Failed requests throw a Problem (RFC 9457).
import { batch, signal } from "@preact/signals";
import { readStorage, writeStorage } from "../app/storage";
import { recordFleetTime } from "../live/fleet-clock";

export type Parameters = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export class Problem extends Error {
  constructor(
    readonly status: number, // 0: no response
    readonly title: string,
    readonly detail: string,
    readonly retryAfterSeconds: number | null = null,
    readonly parameter: string | null = null, // the rejected parameter
  ) {
    super(detail || title);
  }
}

// Converts any error to a Problem.
export function toProblem(error: unknown, title = "Unreadable response"): Problem {
  return error instanceof Problem ? error : new Problem(0, title, String(error));
}

const STORAGE_KEY = "accelscope.token";

// A fleet that listens beyond loopback requires a token. It is stored for this tab only and sent only to the fleet.
export const token = signal(readStorage("sessionStorage", STORAGE_KEY));
export const tokenRequired = signal(false); // the last response was a 401

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

// Encodes the parts of an API path: ids may contain colons and slashes.
export function path(...parts: string[]): string {
  return parts.map(encodeURIComponent).join("/");
}

export function headers(): HeadersInit {
  return token.value === null ? {} : { Authorization: `Bearer ${token.value}` };
}

const TIMEOUT_MS = 20_000;
const POST_TIMEOUT_MS = 60_000; // a POST reads a cluster before it returns

export async function get<T>(url: string, parameters: Parameters = {}, abort?: AbortSignal): Promise<T> {
  return request<T>("GET", url + query(parameters), TIMEOUT_MS, abort);
}

export async function post<T>(url: string): Promise<T> {
  return request<T>("POST", url, POST_TIMEOUT_MS);
}

async function request<T>(method: string, url: string, timeoutMs: number, abort?: AbortSignal): Promise<T> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const sentAt = Date.now();
  const sent = token.value;
  try {
    const answer = await fetch(url, {
      method,
      headers: headers(),
      signal: abort ? AbortSignal.any([abort, timeout]) : timeout,
    });
    if (!answer.ok) throw await problemFrom(answer, sent);
    const content = await answer.json();
    recordFleetTime(content?.at, sentAt);
    return content as T;
  } catch (error) {
    if (error instanceof Problem || error instanceof SyntaxError || abort?.aborted) throw error;
    throw timeout.aborted
      ? new Problem(
          0,
          "The fleet did not respond in time",
          `No response within ${timeoutMs / 1000} s. The fleet is overloaded, or a proxy delays its responses.`,
        )
      : new Problem(
          0,
          "The fleet does not respond",
          "Check that `accelscope fleet` is running and that the network is up.",
        );
  }
}

// sent: the token of the request. The user may have entered another one since.
export async function problemFrom(answer: Response, sent: string | null): Promise<Problem> {
  if (answer.status === 401 && sent === token.value) tokenRequired.value = true;
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
    // no problem document: the response is from a proxy
  }
  return new Problem(
    answer.status,
    title,
    detail,
    Number.isFinite(after) && after > 0 ? after : null,
    parameter,
  );
}
