// Events of the fleet's log: names, severity, links and filters.
import type { Event, EventKind, Severity } from "../api/types";
import { linkTo } from "../app/routes";
import { clock } from "../app/units";
import { escapeValue, valuesOf } from "./filters/values";
import type { Tone } from "./health";

export const KINDS: Record<EventKind, string> = {
  device_lost: "Device lost",
  device_back: "Device recovered",
  device_worse: "Health degraded",
  device_better: "Health improved",
  device_gone: "Device removed",
  device_new: "Device added",
  node_stale: "Node stale",
  node_back: "Node recovered",
  node_forgotten: "Node removed",
  node_incompatible: "Node incompatible",
  cluster_unreachable: "Cluster unreachable",
  cluster_back: "Cluster recovered",
  cluster_left: "Cluster removed",
  unusual_began: "Anomaly",
  unusual_ended: "Anomaly ended",
};

export const SEVERITIES: readonly Severity[] = ["critical", "warning", "info"];

const GOOD = new Set<EventKind>([
  "device_back",
  "device_better",
  "node_back",
  "cluster_back",
  "unusual_ended",
]);

export function kindName(kind: string): string {
  return KINDS[kind as EventKind] ?? kind.replaceAll("_", " ");
}

export function eventTone({ severity, kind }: Event): Tone {
  if (kind === "device_lost") return "lost";
  if (severity !== "info") return severity;
  return GOOD.has(kind) ? "ok" : "unknown";
}

// Shortens an id: "nvidia:GPU-4257b940-…" to "GPU-4257b940…".
export function shortId(id: string): string {
  const own = id.slice(id.indexOf(":") + 1);
  if (own.length <= 16) return own;
  return `${/^.{8,14}?(?=-)/.exec(own)?.[0] ?? own.slice(0, 12)}…`;
}

export interface EventPlace {
  text: string;
  title: string; // in full
  href: string;
}

// The most specific object of an event.
export function eventPlace({ cluster, node, device, namespace, pod }: Event): EventPlace {
  if (pod && namespace) {
    const text = `${namespace}/${pod}`;
    return { text, title: text, href: linkTo("pod", { cluster, namespace, pod }) };
  }
  if (node && device) {
    const href = linkTo("device", { cluster, node, device });
    return { text: `${node} · ${shortId(device)}`, title: `${node} · ${device}`, href };
  }
  if (node) return { text: node, title: node, href: linkTo("node", { cluster, node }) };
  return { text: cluster, title: cluster, href: linkTo("cluster", { cluster }) };
}

// The event's text without the name that it starts with, for use beside a link of that name.
export function textWithoutPlace({ text, device, node, cluster, namespace, pod }: Event): string {
  for (const name of [device, pod && namespace ? `${namespace}/${pod}` : null, pod, node, cluster]) {
    if (name && text.startsWith(name)) return text.slice(name.length).replace(/^[:\s]+/, "");
  }
  return text;
}

// Time of day, with the date if it is not today.
export function eventTime(at: number, now: Date): string {
  const then = new Date(at * 1000);
  const day =
    then.toDateString() === now.toDateString()
      ? ""
      : `${then.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} `;
  return day + clock(at);
}

export const FILTERS = ["severity", "kind", "cluster", "node", "device", "namespace", "pod"] as const;
export type Filters = Partial<Record<(typeof FILTERS)[number], readonly string[]>>;

export function filtersOf(address: URLSearchParams): Filters {
  return Object.fromEntries(FILTERS.map((name) => [name, valuesOf(address, name)]));
}

// Filters as parameters of the API and of the page's address.
export function filterParameters(filters: Filters): Filters {
  return Object.fromEntries(FILTERS.map((name) => [name, (filters[name] ?? []).map(escapeValue)]));
}

export function matchesFilters(event: Event, filters: Filters): boolean {
  return FILTERS.every((name) => {
    const wanted = filters[name];
    return !wanted || wanted.length === 0 || wanted.includes(event[name] ?? "");
  });
}

// Merges fetched events (oldest first) with events of the stream, newest first, without duplicates. Ids start again when
// the fleet restarts, so an event is identified by id and time.
export function mergeEvents(asked: readonly Event[], since: readonly Event[], limit: number): Event[] {
  const seen = new Set<string>();
  const all: Event[] = [];
  for (const event of [...since, ...asked.toReversed()]) {
    const key = `${event.id} ${event.at}`;
    if (seen.has(key)) continue;
    seen.add(key);
    all.push(event);
  }
  return all.sort((a, b) => b.at - a.at || b.id - a.id).slice(0, limit);
}
