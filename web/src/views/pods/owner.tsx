import { Absent } from "../../parts/absent";
import type { Owner } from "./group";

// The name first: where there is little room, the kind is what can be missed.
export function OwnerCell({ owner }: { owner: Owner | null }) {
  if (owner === null) return <Absent />;
  return (
    <span title={[owner.kind, owner.name].filter(Boolean).join(" ")}>
      {owner.name} {owner.kind && <span class="cell-soft small">{owner.kind}</span>}
    </span>
  );
}
