// Prefetching of all modes, and caching of the arrangement.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Parameters, query } from "../api/client";
import type { Columns } from "../api/types";
import { type Arrangement, arrange, type Filters, type Grouping, hasSameRows } from "./arrangement";
import { type Fleet, fleetOf } from "./fleet";
import { MODES } from "./modes";
import { fieldsOf } from "./parameters";

const AFTER_MS = 1500; // after the first drawing

// Data of all modes, fetched once, so that switching the mode shows it immediately.
export function useSpare(others: Parameters, shown: boolean): Fleet | null {
  const [spare, setSpare] = useState<{ of: string; fleet: Fleet } | null>(null);
  const of = query({ ...others, fields: fieldsOf(...MODES) });
  useEffect(() => {
    if (!shown) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      get<Columns>(`/api/v1/devices/columns${of}`, {}, abort.signal).then(
        (columns) => setSpare({ of, fleet: fleetOf(columns) }),
        () => {}, // switching the mode fetches its data
      );
    }, AFTER_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [of, shown]);
  return spare?.of === of ? spare.fleet : null;
}

interface Arranged {
  of: Fleet;
  how: string;
  arrangement: Arrangement;
}

export function useArrangement(
  fleet: Fleet | null,
  grouping: Grouping,
  filters: Filters,
): Arrangement | null {
  const last = useRef<Arranged | null>(null);
  if (!fleet) return null;
  const how = JSON.stringify([grouping, filters]);
  const old = last.current;
  if (old?.of === fleet && old.how === how) return old.arrangement;
  const arrangement =
    old?.how === how && hasSameRows(old.of, fleet, filters)
      ? old.arrangement
      : arrange(fleet, grouping, filters);
  last.current = { of: fleet, how, arrangement };
  return arrangement;
}
