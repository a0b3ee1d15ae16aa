import { HealthIcon } from "../../parts/health";
import type { Said } from "./state";

export function SaidState({ said }: { said: Said }) {
  return (
    <span class={`health health-${said.tone}`} title={said.why ?? undefined}>
      <HealthIcon tone={said.tone} />
      <span class="health-word">{said.word}</span>
    </span>
  );
}
