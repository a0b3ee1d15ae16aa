// What makes the map quick: numbers that are there before they are wanted, and nothing arranged twice.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Parameters, query } from "../api/client";
import type { Columns } from "../api/types";
import { type Arrangement, arranged, type Filters, type Grouping, isAlike } from "./arrangement";
import { type Fleet, fleetOf } from "./fleet";
import { MODES } from "./modes";
import { fieldsOf } from "./question";

const AFTER_MS = 1500; // the first picture goes first

// The numbers of all modes, asked for once: another mode shows them at once, and newer ones a moment later.
export function useSpare(others: Parameters, shown: boolean): Fleet | null {
  const [spare, setSpare] = useState<{ of: string; fleet: Fleet } | null>(null);
  const of = query({ ...others, fields: fieldsOf(...MODES) });
  useEffect(() => {
    if (!shown) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      get<Columns>(`/api/v1/devices/columns${of}`, {}, abort.signal).then(
        (columns) => setSpare({ of, fleet: fleetOf(columns) }),
        () => {}, // nothing is lost by it: whoever wants another mode asks for it then
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
    old?.how === how && isAlike(old.of, fleet, filters)
      ? old.arrangement
      : arranged(fleet, grouping, filters);
  last.current = { of: fleet, how, arrangement };
  return arrangement;
}
