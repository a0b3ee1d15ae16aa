import { HealthIcon } from "../../parts/health";
import type { Status } from "./status";

export function StatusLabel({ status }: { status: Status }) {
  return (
    <span class={`health health-${status.tone}`} title={status.why ?? undefined}>
      <HealthIcon tone={status.tone} />
      <span class="health-word">{status.word}</span>
    </span>
  );
}
