import { Absent } from "../../parts/absent";
import type { Owner } from "./group";

// The name comes first, since the kind is less important if space is limited.
export function OwnerCell({ owner }: { owner: Owner | null }) {
  if (owner === null) return <Absent />;
  return (
    <span title={[owner.kind, owner.name].filter(Boolean).join(" ")}>
      {owner.name} {owner.kind && <span class="cell-soft small">{owner.kind}</span>}
    </span>
  );
}
