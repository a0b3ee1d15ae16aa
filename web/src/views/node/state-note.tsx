// A note for nodes that are not fresh, with the reason.
import type { NodeRow } from "../../api/types";
import { duration } from "../../app/units";
import { HealthIcon, words } from "../../parts/health";
import { StaleNote } from "../../parts/states";

export function StateNote({ node }: { node: NodeRow }) {
  const why = node.reason ? words(node.reason) : "";
  if (node.state === "stale")
    return (
      <StaleNote>
        No new data from this node for {duration(node.age_seconds)}
        {why ? `: ${why}` : ""}. Showing the last known values.
      </StaleNote>
    );
  if (node.state === "incompatible")
    return (
      <div class="note note-critical" role="alert">
        <HealthIcon tone="critical" />
        <div class="note-text">
          <strong>Unsupported agent version</strong>
          <div>{why || "The agent's data format is not supported."} Upgrade the agent or the fleet.</div>
        </div>
      </div>
    );
  if (node.state === "unread")
    return (
      <div class="note note-warning" role="status">
        <HealthIcon tone="unknown" />
        <div class="note-text">
          This node should have accelerators and has not been read yet{why ? `: ${why}` : ""}. Check that an
          agent is running on it.
        </div>
      </div>
    );
  return null;
}
