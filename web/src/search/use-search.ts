// Searches the fleet's API a moment after the last key press.
import { useEffect, useState } from "preact/hooks";
import { get, type Problem, toProblem } from "../api/client";
import type { DeviceRowPage, Namespaces, NodeRowPage, PodRowPage } from "../api/types";
import { type Found, type ResultGroup, resultGroups, viewResults } from "./results";

const WAIT_MS = 120;
const ROWS = 5;
const POD_ROWS = 40; // a pod has a row for each container and device

export interface Search {
  groups: readonly ResultGroup[];
  of: string; // the text that was searched
  problem: Problem | null;
}

const NOTHING: Search = { groups: [], of: "", problem: null };

export function useSearch(text: string): Search {
  const [search, setSearch] = useState<Search>(NOTHING);
  const q = text.trim();
  useEffect(() => {
    if (q === "") {
      setSearch(NOTHING);
      return;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const places = viewResults(q);
      try {
        const found = await ask(q, abort.signal);
        const groups = resultGroups(q, found);
        setSearch({ groups: places ? [places, ...groups] : groups, of: q, problem: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        setSearch({ groups: places ? [places] : [], of: q, problem: toProblem(error) });
      }
    }, WAIT_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [q]);
  return search;
}

async function ask(q: string, abort: AbortSignal): Promise<Found> {
  const [nodes, devices, pods, namespaces] = await Promise.all([
    get<NodeRowPage>("/api/v1/nodes", { q, limit: ROWS }, abort),
    get<DeviceRowPage>("/api/v1/devices", { q, limit: ROWS }, abort),
    get<PodRowPage>("/api/v1/pods", { q, limit: POD_ROWS }, abort),
    get<Namespaces>("/api/v1/namespaces", { q, limit: ROWS }, abort),
  ]);
  return { nodes, devices, pods, namespaces };
}
