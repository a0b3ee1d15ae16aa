// Fetches data of the API for a view, and fetches it again when the stream announces a change.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Parameters, type Problem, query, tokenRequired, toProblem } from "../api/client";
import { clearPending, markPending, markResponded } from "./pending";
import { type Change, onChange, paused } from "./stream";

export interface Resource<T> {
  data: T | null; // last response, also while newer requests fail
  problem: Problem | null; // of the last request
  loading: boolean; // first request is under way
  refetch: () => void;
}

export interface RefreshOptions {
  affects?: (change: Change) => boolean; // default: every change
  minIntervalSeconds?: number; // default: 2
}

// url null: no request. A new url or new parameters discard the old data, unless keepPreviousData is set.
export function useResource<T>(
  url: string | null,
  parameters: Parameters = {},
  {
    affects,
    minIntervalSeconds = 2,
    keepPreviousData = false,
  }: RefreshOptions & { keepPreviousData?: boolean } = {},
): Resource<T> {
  const address = url === null ? null : url + query(parameters);
  const [state, setState] = useState<{
    of: string | null;
    data: T | null;
    problem: Problem | null;
  }>({
    of: null,
    data: null,
    problem: null,
  });
  const again = useRef<() => void>(() => {});
  const affectsNow = useRef(affects);
  affectsNow.current = affects;

  useEffect(() => {
    if (address === null) return;
    const request = {};
    const abort = new AbortController();
    let open = false;
    let wanted = false; // repeat when the current request has finished
    let answered = false;
    let tokenless = false; // waits for a token
    let last = Number.NEGATIVE_INFINITY; // performance.now(), which is monotonic
    let timer: ReturnType<typeof setTimeout> | undefined;

    const fetchNow = async () => {
      if (open) {
        wanted = true;
        return;
      }
      open = true;
      last = performance.now();
      try {
        const data = await get<T>(address, {}, abort.signal);
        clearPending(request);
        if (paused.value && answered) return; // resuming fetches again
        answered = true;
        setState({ of: address, data, problem: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        const problem = toProblem(error);
        markResponded(request, problem.status !== 0);
        setState((old) => (old.of === address ? { ...old, problem } : { of: address, data: null, problem }));
        if (problem.status === 401) {
          tokenless = true;
          if (!tokenRequired.value) schedule(0); // the user entered a token meanwhile
        }
        const wait = problem.retryAfterSeconds ?? (problem.status === 0 || problem.status >= 500 ? 5 : null);
        if (wait !== null) schedule(wait * 1000);
      } finally {
        open = false;
        if (wanted && !abort.signal.aborted) {
          wanted = false;
          schedule(minIntervalSeconds * 1000);
        }
      }
    };
    const due = () => {
      timer = undefined;
      if (tokenRequired.value) tokenless = true;
      else if (paused.value && answered) clearPending(request);
      else void fetchNow();
    };
    const schedule = (least: number) => {
      if (timer === undefined) timer = setTimeout(due, Math.max(0, last + least - performance.now()));
    };
    again.current = fetchNow;
    due();
    const stop = onChange((change) => {
      if (change === "all" || !affectsNow.current || affectsNow.current(change)) {
        markPending(request);
        schedule(minIntervalSeconds * 1000);
      }
    });
    const unsubscribe = tokenRequired.subscribe((needed) => {
      if (needed || !tokenless) return;
      tokenless = false;
      schedule(0);
    });
    return () => {
      stop();
      unsubscribe();
      clearPending(request);
      clearTimeout(timer);
      abort.abort();
    };
  }, [address, minIntervalSeconds]);

  const current = state.of === address;
  return {
    data: current || keepPreviousData ? state.data : null,
    problem: current ? state.problem : null,
    loading: address !== null && !current,
    refetch: () => again.current(),
  };
}

export function affectsNode(cluster: string, node: string): (change: Change) => boolean {
  return ({ clusters, nodes }) =>
    clusters.includes(cluster) || nodes === null || nodes.some(([c, n]) => c === cluster && n === node);
}

// Matches changes of these clusters; an empty list matches all changes.
export function affectsClusters(wanted: readonly string[]): (change: Change) => boolean {
  return ({ clusters, nodes }) =>
    wanted.length === 0 ||
    nodes === null ||
    clusters.some((cluster) => wanted.includes(cluster)) ||
    nodes.some(([cluster]) => wanted.includes(cluster));
}
