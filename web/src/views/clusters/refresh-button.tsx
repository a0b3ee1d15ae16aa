// Refreshes a cluster. Needs a token with the admin scope, which is only known after a try.
import { useState } from "preact/hooks";
import { type Problem, path, post, toProblem } from "../../api/client";
import type { Refreshed } from "../../api/types";

type State = { is: "ready" | "asking" | "done" } | { is: "refused"; problem: Problem };

export function RefreshButton({ cluster, done }: { cluster: string; done: () => void }) {
  const [state, setState] = useState<State>({ is: "ready" });
  const refresh = async () => {
    setState({ is: "asking" });
    try {
      await post<Refreshed>(`/api/v1/clusters/${path(cluster)}/refresh`);
      setState({ is: "done" });
      done();
    } catch (error) {
      setState({ is: "refused", problem: toProblem(error) });
    }
  };
  const forbidden = state.is === "refused" && state.problem.status === 403;
  return (
    <>
      <span role="status" class="soft small">
        {state.is === "done" ? "Refreshed" : null}
        {state.is === "refused"
          ? forbidden
            ? "Requires a token with the admin scope"
            : state.problem.title
          : null}
      </span>
      <button type="button" onClick={refresh} disabled={state.is === "asking" || forbidden}>
        {state.is === "asking" ? "Refreshing…" : "Refresh"}
      </button>
    </>
  );
}
