// What a view shows of the API: asked for once, asked for anew when the fleet says that it changed.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, type Parameters, type Problem, problemOf, query, tokenWanted } from "../api/client";
import { lacks, lacksNothing, tellAnswered } from "./behind";
import { type Change, onChange, paused } from "./stream";

export interface Resource<T> {
  data: T | null; // the last that was answered, also while a newer one cannot be had
  problem: Problem | null; // why the last question was not answered
  loading: boolean; // a question is open and there is nothing to show yet
  refetch: () => void;
}

export interface Watching {
  concerns?: (change: Change) => boolean; // left out: every change
  atMostEverySeconds?: number; // 2 unless said
}

// url null: nothing is asked (yet). A new url or new parameters forget what the old ones gave, unless keepWhileAsking.
export function useResource<T>(
  url: string | null,
  parameters: Parameters = {},
  {
    concerns,
    atMostEverySeconds = 2,
    keepWhileAsking = false,
  }: Watching & { keepWhileAsking?: boolean } = {},
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
  const concernsNow = useRef(concerns);
  concernsNow.current = concerns;

  useEffect(() => {
    if (address === null) return;
    const who = {};
    const abort = new AbortController();
    let open = false;
    let wanted = false; // once more, as soon as the open question is answered
    let answered = false;
    let tokenless = false; // waits for a token
    let last = Number.NEGATIVE_INFINITY; // by performance.now(): nobody sets that clock
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
        lacksNothing(who);
        if (paused.value && answered) return; // nothing moves; whoever goes on asks anew
        answered = true;
        setState({ of: address, data, problem: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        const problem = problemOf(error);
        tellAnswered(who, problem.status !== 0);
        setState((old) => (old.of === address ? { ...old, problem } : { of: address, data: null, problem }));
        if (problem.status === 401) {
          tokenless = true;
          if (!tokenWanted.value) schedule(0); // another was given meanwhile
        }
        const wait = problem.retryAfterSeconds ?? (problem.status === 0 || problem.status >= 500 ? 5 : null);
        if (wait !== null) schedule(wait * 1000);
      } finally {
        open = false;
        if (wanted && !abort.signal.aborted) {
          wanted = false;
          schedule(atMostEverySeconds * 1000);
        }
      }
    };
    const due = () => {
      timer = undefined;
      if (tokenWanted.value) tokenless = true;
      else if (paused.value && answered) lacksNothing(who);
      else void fetchNow();
    };
    const schedule = (least: number) => {
      if (timer === undefined) timer = setTimeout(due, Math.max(0, last + least - performance.now()));
    };
    again.current = fetchNow;
    due();
    const stop = onChange((change) => {
      if (change === "all" || !concernsNow.current || concernsNow.current(change)) {
        lacks(who);
        schedule(atMostEverySeconds * 1000);
      }
    });
    const unsubscribe = tokenWanted.subscribe((needed) => {
      if (needed || !tokenless) return;
      tokenless = false;
      schedule(0);
    });
    return () => {
      stop();
      unsubscribe();
      lacksNothing(who);
      clearTimeout(timer);
      abort.abort();
    };
  }, [address, atMostEverySeconds]);

  const current = state.of === address;
  return {
    data: current || keepWhileAsking ? state.data : null,
    problem: current ? state.problem : null,
    loading: address !== null && !current,
    refetch: () => again.current(),
  };
}

export function concernsNode(cluster: string, node: string): (change: Change) => boolean {
  return ({ clusters, nodes }) =>
    clusters.includes(cluster) || nodes === null || nodes.some(([c, n]) => c === cluster && n === node);
}

// Of any of these clusters; of none: every change.
export function concernsClusters(wanted: readonly string[]): (change: Change) => boolean {
  return ({ clusters, nodes }) =>
    wanted.length === 0 ||
    nodes === null ||
    clusters.some((cluster) => wanted.includes(cluster)) ||
    nodes.some(([cluster]) => wanted.includes(cluster));
}
