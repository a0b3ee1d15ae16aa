// A node that is not fresh says so before anything else, with what can be done about it.
import type { NodeRow } from "../../api/types";
import { duration } from "../../app/units";
import { HealthIcon, words } from "../../parts/health";
import { StaleNote } from "../../parts/states";

export function StateNote({ node }: { node: NodeRow }) {
  const why = node.reason ? words(node.reason) : "";
  if (node.state === "stale")
    return (
      <StaleNote>
        Nothing new from this node for {duration(node.age_seconds)}
        {why ? `: ${why}` : ""}. These are the last values.
      </StaleNote>
    );
  if (node.state === "incompatible")
    return (
      <div class="note note-critical" role="alert">
        <HealthIcon tone="critical" />
        <div class="note-text">
          <strong>This node cannot be understood</strong>
          <div>
            {why || "Its agent speaks another version."} Bring agent and fleet to versions that agree.
          </div>
        </div>
      </div>
    );
  if (node.state === "unread")
    return (
      <div class="note note-warning" role="status">
        <HealthIcon tone="unknown" />
        <div class="note-text">
          This node has accelerators, or should, and was not read so far{why ? `: ${why}` : ""}. Is an agent
          running there?
        </div>
      </div>
    );
  return null;
}
