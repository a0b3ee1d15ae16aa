// History of the fleet, a cluster, a device …, by the minute.
import { useMemo } from "preact/hooks";
import type { Parameters } from "../api/client";
import type { HistorySeries } from "../api/types";
import { clockKnown, fleetNow } from "../live/fleet-clock";
import { type Resource, useResource } from "../live/resource";

export const SPANS = { "15 min": 900, "1 h": 3600, "6 h": 21600, "24 h": 86400 } as const;
export type Span = keyof typeof SPANS;

export function isSpan(text: string | null): text is Span {
  return text !== null && Object.hasOwn(SPANS, text);
}

const MINUTE = 60;
export const HOUR = 3600;
const DAY = 86400;

export type Scope = HistorySeries["scope"];

// Seconds of history that the fleet itself stores; more needs a Prometheus store.
const KEPT: Record<Scope, number> = {
  fleet: DAY,
  cluster: DAY,
  vendor: DAY,
  model: DAY,
  namespace: DAY,
  device: HOUR,
  pod: HOUR,
};

export function needsStore(scope: Scope, span: Span): boolean {
  return SPANS[span] > KEPT[scope];
}

// of: scope and its parameters (key, cluster, node, namespace).
export function useHistory(of: Parameters | null, spanSeconds: number): Resource<HistorySeries> {
  // A fixed start, so that the request stays the same while the view is open.
  const known = clockKnown.value;
  const since = useMemo(
    () => Math.floor(fleetNow() / 1000 / MINUTE) * MINUTE - Math.max(spanSeconds, HOUR),
    [spanSeconds, known],
  );
  return useResource<HistorySeries>(
    of === null || !known ? null : "/api/v1/history",
    { ...of, since },
    { minIntervalSeconds: MINUTE / 2, keepPreviousData: true },
  );
}
